// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// What is true and what happened, to hold a program under test against.
extension AppleSimulator {
    package var counters: Counters { world.withLockedValue { $0.counters } }

    package func resetCounters() {
        world.withLockedValue { $0.counters.reset() }
    }

    package func truth(of userID: String) throws(SimulatorError) -> UserTruth {
        try world.withLock { world throws(SimulatorError) in world.truth(of: try world.user(userID)) }
    }

    /// The truth about everybody, in the order of creation.
    package var truth: [UserTruth] {
        world.withLockedValue { world in world.users.indices.map { world.truth(of: $0) } }
    }

    /// The shortest time between two answers to refreshes of one token, over all users: it proves that nobody was asked twice in a day.
    /// Tokens that the app has revoked are left out: who proves that asks before and after.
    package var shortestRefreshGap: Duration? {
        world.withLockedValue { world in
            world.grants.lazy.filter { $0.ending?.cause != .revokedByApp }.compactMap(\.refreshes.shortestGap).min()
        }
    }

    /// The kept notifications, oldest first.
    package var notifications: [SignedNotification] { world.withLockedValue { $0.notifications.all } }
}
