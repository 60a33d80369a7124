// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// The truth and the history, to compare a program under test with.
extension AppleSimulator {
    package var counters: Counters { world.withLockedValue { $0.counters } }

    package func resetCounters() {
        world.withLockedValue { $0.counters.reset() }
    }

    package func truth(of userID: String) throws(SimulatorError) -> UserTruth {
        try world.withLock { world throws(SimulatorError) in world.truth(of: try world.user(userID)) }
    }

    /// The truth about all users, in the order of creation.
    package var truth: [UserTruth] {
        world.withLockedValue { world in world.users.indices.map { world.truth(of: $0) } }
    }

    /// The shortest time between two answers to refreshes of one token, over all users. It proves that the program asked about no token
    /// twice in a day.
    ///
    /// It leaves out tokens that the app has revoked, because the program asks about them before and after the revocation.
    package var shortestRefreshGap: Duration? {
        world.withLockedValue { world in
            world.grants.lazy.filter { $0.ending?.cause != .revokedByApp }.compactMap(\.refreshes.shortestGap).min()
        }
    }

    /// The kept notifications, oldest first.
    package var notifications: [SignedNotification] { world.withLockedValue { $0.notifications.all } }
}
