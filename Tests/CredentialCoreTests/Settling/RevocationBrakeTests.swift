// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct RevocationBrakeTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    @Test(arguments: [(0, 50), (4_900, 50), (100_000, 1_010)])
    func theBoundIsANumberOrAShareOfTheUsers(_ authorized: Int, _ bound: Int) {
        var brake = RevocationBrake(authorized: authorized)
        let opened = (0..<2_000).count { _ in brake.letsThrough(under: RevocationBrakeRules(), at: Self.now) }
        #expect(opened == bound && brake.held == 2_000 - bound && brake.setAt == Self.now)
    }

    /// Each proved revocation takes one user from the authorized ones.
    @Test func allUsersAreABoundThatIsNeverReached() {
        var brake = RevocationBrake(authorized: 3_000)
        for _ in 0..<3_000 {
            #expect(brake.letsThrough(under: RevocationBrakeRules(maxPercent: 100), at: Self.now) == true)
            brake.authorized -= 1
        }
    }

    /// Otherwise the hour of a clock that was a year ahead would last a year.
    @Test func aClockThatIsSetBackKeepsTheCountForAnHour() {
        let rules = RevocationBrakeRules(maxRequests: 2)
        var brake = RevocationBrake()
        #expect(brake.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(86_400 * 365))) == true)
        #expect(brake.letsThrough(under: rules, at: Self.now) == true)
        var other = brake
        #expect(other.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(3_599))) == false)
        #expect(brake.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(3_600))) == true)
    }
}
