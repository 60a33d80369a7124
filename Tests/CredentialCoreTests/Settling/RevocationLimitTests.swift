// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct RevocationLimitTests {
    private static let now = Timestamp(milliseconds: 1_750_000_000_000)

    @Test(arguments: [(0, 50), (4_900, 50), (100_000, 1_010)])
    func theBoundIsANumberOrAShareOfTheUsers(_ authorized: Int, _ bound: Int) {
        var revocationLimit = RevocationLimit(authorized: authorized)
        let opened = (0..<2_000).count { _ in revocationLimit.letsThrough(under: RevocationLimitRules(), at: Self.now) }
        #expect(opened == bound && revocationLimit.held == 2_000 - bound && revocationLimit.reachedAt == Self.now)
    }

    /// Each proved revocation takes one user from the authorized ones.
    @Test func allUsersAreABoundThatIsNeverReached() {
        var revocationLimit = RevocationLimit(authorized: 3_000)
        for _ in 0..<3_000 {
            #expect(revocationLimit.letsThrough(under: RevocationLimitRules(maxPercent: 100), at: Self.now) == true)
            revocationLimit.authorized -= 1
        }
    }

    /// Otherwise the hour of a clock that was a year ahead would last a year.
    @Test func aClockThatIsSetBackKeepsTheCountForAnHour() {
        let rules = RevocationLimitRules(maxRequests: 2)
        var revocationLimit = RevocationLimit()
        #expect(revocationLimit.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(86_400 * 365))) == true)
        #expect(revocationLimit.letsThrough(under: rules, at: Self.now) == true)
        var other = revocationLimit
        #expect(other.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(3_599))) == false)
        #expect(revocationLimit.letsThrough(under: rules, at: Self.now.advanced(by: .seconds(3_600))) == true)
    }
}
