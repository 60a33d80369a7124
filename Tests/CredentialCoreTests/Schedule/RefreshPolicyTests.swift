// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite struct RefreshPolicyTests {
    private static let policies = [
        RefreshPolicy(),
        RefreshPolicy(interval: .milliseconds(20), timeout: .milliseconds(1)),
        RefreshPolicy(interval: .seconds(3600), timeout: .seconds(3600)),
        RefreshPolicy(interval: .seconds(60), timeout: .seconds(86_400)),
        RefreshPolicy(interval: .seconds(10_000 * 86_400)),
    ]
    private static let credentials = (1...200).map { CredentialID(clientID: "com.example.app", userID: "\($0)") }
    private let now = Timestamp(milliseconds: 1_750_000_000_000)

    // MARK: After an answer

    @Test(arguments: policies) func theNextCheckIsAnIntervalAfterTheAnswerAndAtMostATwentiethLater(_ policy: RefreshPolicy) throws {
        for credential in Self.credentials {
            let next = policy.nextCheck(afterAnswerAt: now, of: credential)
            try #require(next >= now.advanced(by: policy.interval))
            try #require(next <= now.advanced(by: policy.interval * 1.05))
            try #require(next == policy.nextCheck(afterAnswerAt: now, of: credential))
        }
    }

    private static let names: [@Sendable (Int) -> CredentialID] = [
        { CredentialID(clientID: "com.example.app", userID: "\($0)") },
        { CredentialID(clientID: "com.example.app", userID: "001234.\(String($0, radix: 16)).0815") },
        { CredentialID(clientID: "com.example.\($0)", userID: "001234.abcdef.0815") },
    ]

    /// Twenty bins of equal width. A random spread would put 500 ± 22 of 10,000 into each.
    @Test(arguments: names) func usersWhoSignInTogetherAreSpreadEvenly(_ name: @Sendable (Int) -> CredentialID) {
        let policy = RefreshPolicy()
        var counts = Array(repeating: 0, count: 20)
        for number in 0..<10_000 {
            let next = policy.nextCheck(afterAnswerAt: now, of: name(number))
            let share = now.advanced(by: policy.interval).duration(to: next) / (policy.interval * 0.05)
            counts[Int(share * 20)] += 1
        }
        #expect(counts.allSatisfy { (400...600).contains($0) }, "\(counts)")
    }

    // MARK: The first check

    @Test(arguments: policies) func theFirstCheckIsNeverBeforeNow(_ policy: RefreshPolicy) throws {
        let past = [Duration.zero, .milliseconds(1), .seconds(3600), .seconds(100_000 * 86_400)].map { now.advanced(by: $0 * -1) }
        for credential in Self.credentials.prefix(20) {
            for grantedAt in past {
                let first = policy.firstCheck(grantedAt: grantedAt, of: credential, now: now)
                try #require(first >= now)
                try #require(first <= now.advanced(by: policy.longestDelay))
            }
        }
    }

    /// How long the first checks wait after sign-ins at one moment.
    private func waits(grantedAt time: Timestamp, under policy: RefreshPolicy = RefreshPolicy()) -> [Duration] {
        Self.credentials.map { now.duration(to: policy.firstCheck(grantedAt: time, of: $0, now: now)) }
    }

    /// While the user is still there, and without checking all users of a rush hour at once.
    @Test func whoHasJustSignedInIsAskedAboutWithinMinutes() {
        let waits = waits(grantedAt: now.advanced(by: .seconds(-5)))
        #expect(waits.allSatisfy { $0 >= .seconds(60) && $0 <= .seconds(600) })
        #expect(Set(waits).count > 150)
        let hourly = self.waits(grantedAt: now, under: RefreshPolicy(interval: .seconds(3600)))
        #expect(hourly.allSatisfy { $0 <= .seconds(180) }, "frequent checks make it sooner")
    }

    @Test func anImportIsSpreadOverAnInterval() {
        let waits = waits(grantedAt: now.advanced(by: .seconds(-86_400)))
        #expect(waits.allSatisfy { $0 <= .seconds(86_400) })
        #expect(waits.count { $0 > .seconds(43_200) } > Self.credentials.count / 4)
        #expect(waits.count { $0 < .seconds(43_200) } > Self.credentials.count / 4)
    }

    @Test func aGrantDatedAheadCountsFromNow() {
        #expect(waits(grantedAt: now.advanced(by: .seconds(300))) == waits(grantedAt: now))
    }

    @Test func aLongForgottenSignInIsSpreadToo() {
        #expect(Set(waits(grantedAt: at(0))).count > 150)
    }

    // MARK: After failures

    @Test func waitsGrowWithFailuresAndTheLastOneRepeats() throws {
        let policy = RefreshPolicy()
        for credential in Self.credentials {
            let waits = (1...5).map { now.duration(to: policy.retry(afterFailures: $0, at: now, of: credential)) }
            try #require(waits == waits.sorted())
            try #require(Set(waits).count == waits.count)
            try #require(waits[0] >= .seconds(10) && waits[0] <= .seconds(12.5))
            // After an outage siwatch soon asks again about credentials whose checks failed.
            try #require(waits[4] >= .seconds(1800) && waits[4] <= .seconds(2250))
            for failures in [6, 9, 1_000, .max] {
                try #require(now.duration(to: policy.retry(afterFailures: failures, at: now, of: credential)) == waits[4])
            }
        }
    }

    @Test func noFailureAtAllCountsAsOne() {
        for failures in [0, -1, .min] {
            let credential = Self.credentials[0]
            let found = RefreshPolicy().retry(afterFailures: failures, at: now, of: credential)
            #expect(found == RefreshPolicy().retry(afterFailures: 1, at: now, of: credential))
        }
    }

    @Test(arguments: [0, 9, 11, 3_600, 43_200] as [Int64]) func aRetryIsNotBeforeTheTimeThatAppleNamed(_ seconds: Int64) throws {
        for credential in Self.credentials {
            let retry = RefreshPolicy().retry(afterFailures: 1, at: now, retryAfter: .seconds(seconds), of: credential)
            try #require(retry >= now.advanced(by: .seconds(max(10, seconds))))
        }
    }

    @Test(arguments: policies, [.zero, .seconds(-5), .seconds(86_400), .seconds(90_720), .seconds(Int64.max)] as [Duration])
    func noRetryIsBeyondTheLongestDelay(_ policy: RefreshPolicy, _ retryAfter: Duration) throws {
        for credential in Self.credentials {
            for failures in [1, 8] {
                let retry = policy.retry(afterFailures: failures, at: now, retryAfter: retryAfter, of: credential)
                try #require(retry > now)
                try #require(retry <= now.advanced(by: policy.longestDelay))
            }
        }
    }

    @Test func aTimeThatAppleNamedIsSpreadToo() {
        for retryAfter in [Duration.seconds(3600), .seconds(Int64.max)] {
            let retries = Self.credentials.map { RefreshPolicy().retry(afterFailures: 1, at: now, retryAfter: retryAfter, of: $0) }
            #expect(Set(retries).count > 150)
        }
    }

    @Test func pausesGrowWithFailures() {
        let pauses = [.min, 1, 2, 3, 4, 5, 6, 7, 8, .max].map(RefreshPolicy.pause)
        #expect(pauses == pauses.sorted())
        #expect(pauses.first == .seconds(10))
        #expect(pauses.last == .seconds(21_600))
    }

    // MARK: Leases

    @Test(arguments: policies) func aLeaseOutlivesTwoRequestsAndGrowsWithEachAttempt(_ policy: RefreshPolicy) {
        let leases = [.min, -1, 0, 1, 2, 3, 5, 10, 11, .max].map(policy.lease)
        #expect(leases == leases.sorted())
        #expect(leases[0] > policy.timeout * 2)
        #expect(leases[0] >= .seconds(60))
        #expect(leases.allSatisfy { $0 <= policy.longestDelay })
    }

    @Test func eachUnsettledClaimDoublesTheLease() {
        #expect((0...4).map(RefreshPolicy().lease) == [60, 120, 240, 480, 960].map { .seconds($0) })
    }

    // MARK: The absurd

    @Test(arguments: [
        RefreshPolicy(interval: .seconds(10_000 * 86_400), timeout: .seconds(10_000 * 86_400)),
        RefreshPolicy(interval: .seconds(Int64.max), timeout: .seconds(Int64.max)),
        RefreshPolicy(interval: Duration(attoseconds: .max), timeout: Duration(attoseconds: .max)),
        RefreshPolicy(interval: .nanoseconds(1), timeout: .nanoseconds(1)),
    ])
    func noLengthAndNoTimeTraps(_ policy: RefreshPolicy) {
        let credential = Self.credentials[0]
        for time in [Int64.min, 0, .max].map(at) {
            #expect(policy.nextCheck(afterAnswerAt: time, of: credential) >= time)
            for other in [Int64.min, 0, .max].map(at) { #expect(policy.firstCheck(grantedAt: time, of: credential, now: other) >= other) }
            for failures in [Int.min, 1, .max] {
                let retry = policy.retry(afterFailures: failures, at: time, retryAfter: Duration(attoseconds: .max), of: credential)
                #expect(retry >= time)
                #expect(policy.lease(attempts: failures) > policy.timeout)
            }
        }
        #expect(policy.longestDelay > policy.interval)
    }

    /// For every time-out: work that waited in the reserve, was sent and timed out is settled before its lease ends.
    @Test(arguments: [(250, 29_750), (15_000, 15_000), (60_000, 60_000)])
    func theLeaseOutlivesTheReserveAndTheRequest(timeout: Int, wait: Int) {
        let policy = RefreshPolicy(interval: .seconds(86_400), timeout: .milliseconds(timeout))
        #expect(policy.longestReserve == .milliseconds(wait))
        #expect(policy.lease(attempts: 0) == policy.longestReserve + policy.timeout + .seconds(30))
    }

    @Test func aCredentialWithoutNamesHasAPlaceToo() {
        let nameless = CredentialID(clientID: "", userID: "")
        #expect(RefreshPolicy().nextCheck(afterAnswerAt: now, of: nameless) >= now)
    }
}
