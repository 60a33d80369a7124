// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOConcurrencyHelpers

/// How many of Apple's answers wait for a signing key, and the extra hands in place of those that hold them.
///
/// Such an answer asks nothing more of Apple, so it must not keep another user's code from being sent.
final class KeyWaits: Sendable {
    private let state = NIOLockedValueBox((waiting: 0, hands: 0))

    /// Answers beyond this number hold up other codes. An answer is a few kilobytes.
    static let most = 4096

    /// Hands in addition to the usual ones.
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

    /// Takes back extra hands without a waiting answer. Only a claim does this, so that the number cannot shrink between the count of free
    /// hands and the claim: the claim would believe that nothing is under way.
    func takeBack() {
        state.withLockedValue { $0.hands = min($0.waiting, Self.most) }
    }
}
