// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

/// When siwatch looks again at a request that waits for a sign-in.
@Suite struct SettlementRulesTests {
    private static let start = Timestamp(seconds: 1_750_000_000)
    private static let rules = SettlementRules(policy: RefreshPolicy(), pollInterval: .seconds(1), startedAt: start)

    @Test(
        arguments: [
            (0, 1), (4, 1), (8, 1), (80, 10), (240, 30), (340, 20), (359, 1), (360, 60), (86_400, 60), (-4, 1), (-80, 10), (-3600, 60),
        ]
    )
    func theLongerItWaitsTheRarerItIsLookedAt(waited: Int, retry: Int) {
        let now = Self.start.advanced(by: .seconds(waited))
        #expect(Self.rules.requestRetry(requestedAt: Self.start, at: now) == .seconds(retry))
    }
}
