// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// How many answers of Apple's wait for a signing key, and the hands that stand in for those that hold them.
///
/// Apple asks nothing of such an answer any more, so it is not to keep another user's code from being sent.
final class KeyWaits: Sendable {
    private let state = NIOLockedValueBox((waiting: 0, hands: 0))

    /// What waits beyond that holds up others. An answer is a few kilobytes.
    static let most = 4096

    /// Hands to be had beside the usual ones.
    var hands: Int { state.withLockedValue(\.hands) }

    func begin() {
        state.withLockedValue { state in
            state.waiting += 1
            state.hands = max(state.hands, min(state.waiting, Self.most))
        }
    }

    func end() {
        state.withLockedValue { $0.waiting -= 1 }
    }

    /// Takes back the hands that nothing waits in any more. Only a claim does it, so that between the count of what is free and the claim
    /// there never are fewer: a claim would believe that nothing is under way.
    func takeBack() {
        state.withLockedValue { $0.hands = min($0.waiting, Self.most) }
    }
}
