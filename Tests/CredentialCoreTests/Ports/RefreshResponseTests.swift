// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite struct RefreshResponseTests {
    /// Apple's clock in an answer that took two seconds: a whole second, rounded down.
    private static let date = Timestamp(seconds: 1_750_000_100)
    private static let elapsed = Duration.seconds(2)

    private func requestedAt(_ ours: Timestamp, date: Timestamp? = date) -> Timestamp {
        RefreshResponse(.valid, by: ClientIdentity(clientID: "app", keyID: "KEY"), date: date)
            .requestedAt(ours, elapsed: Self.elapsed)
    }

    /// The answer came within the second of its date, and the question two seconds before.
    @Test(arguments: [-2_000, -1_001, -1, 0, 999]) func oursCountsWhileItAgrees(_ milliseconds: Int) {
        let ours = Self.date.advanced(by: .milliseconds(milliseconds))
        #expect(requestedAt(ours) == ours)
    }

    /// A day ahead, a day behind, or a little more than the answer allows: the earliest time that it allows.
    @Test(arguments: [-86_400_000, -2_001, 1_000, 3_600_000, 8 * 86_400_000])
    func elseItIsTheEarliestThatTheAnswerLeavesPossible(_ milliseconds: Int) {
        #expect(requestedAt(Self.date.advanced(by: .milliseconds(milliseconds))) == Self.date.advanced(by: .zero - Self.elapsed))
    }

    @Test func withoutADateOursCounts() {
        #expect(requestedAt(at(5), date: nil) == at(5))
    }
}
