// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct RefreshClaimTests: ConformanceSuite {
    private func users(_ due: [DueCredential]) -> [String] { due.map(\.id.userID) }

    @Test func thoseThatHaveWaitedLongestComeFirst() async throws {
        for day in [3, 1, 2] { try await store.signIn("day\(day)", token: "r\(day)", at: .start + .days(day), now: .start + .days(day)) }
        let now = Timestamp.start + .days(10)
        #expect(users(try await store.claimCredentials(upTo: 2, at: now)) == ["day1", "day2"])
        #expect(users(try await store.claimCredentials(upTo: 2, at: now)) == ["day3"])
        #expect(try await store.claimCredentials(upTo: 0, at: now + .days(10)).isEmpty)
    }

    @Test func theFirstCheckIsMinutesAfterTheSignIn() async throws {
        try await store.signIn(token: "r")
        #expect(try await store.claimCredentials(at: .start + .minutes(1) - .milliseconds(1)).isEmpty)
        #expect(try await store.claimCredentials(at: .start + .minutes(10)).count == 1)
    }

    /// One credential of each client, the next due one, and none that siwatch has asked about.
    @Test func aClientIsTriedWithTheFirstCheckThatComesNext() async throws {
        try await store.signIn("asked", token: "r")
        try await store.refresh(.valid, at: .start + .minutes(10))
        for user in ["late", "soon"] { try await store.signIn(user, token: user) }
        try await store.signIn("web", client: "web", token: "w")
        try await store.signIn("without")
        try await store.run("UPDATE credential SET due_at = due_at + 999999 WHERE user_id = 'late'")
        func tried() async throws -> [String] {
            let clients: Set = ["app", "web", "elsewhere"]
            return users(try await store.ports.claimFirstChecks(of: clients, upTo: 9, at: .start, policy: StoreUnderTest.policy))
        }
        #expect(try await tried() == ["soon", "web"])
        #expect(try await tried() == ["late"])
        #expect(try await tried().isEmpty)
    }

    /// siwatch must learn whether Apple accepts a token while its user is there. Neither late daily checks nor an import may delay that.
    @Test func whoHasJustSignedInGoesBeforeABacklog() async throws {
        let now = Timestamp.start + .days(3)
        for number in 1...5 {
            try await store.signIn("late\(number)", token: "r", at: .start)
            try await store.signIn("import\(number)", token: "r", at: .start - .days(2), now: .start + .minutes(1))
        }
        for due in try await store.claimCredentials(upTo: 5, at: .start + .minutes(10)) {
            _ = try await store.settle(.valid, about: due, at: .start + .minutes(10))
        }
        try await store.signIn("new", client: "web", token: "r", at: now - .minutes(11))
        #expect(users(try await store.claimCredentials(upTo: 1, at: now)) == ["new"])
        #expect(try await store.claimCredentials(upTo: 100, at: now).count == 10)
    }

    /// There may be many such tokens, and none of them good.
    @Test func firstChecksTakeTheirShareAndWhatTheOthersLeave() async throws {
        let now = Timestamp.start + .days(3)
        for number in 1...4 {
            try await store.signIn("late\(number)", token: "r")
            try await store.run("UPDATE credential SET first_check = NULL WHERE user_id = 'late\(number)'")
        }
        for number in 1...6 { try await store.signIn("new\(number)", token: "r", at: now - .minutes(11)) }
        func claim(_ limit: Int, _ share: Int) async throws -> [String] {
            users(try await store.claimCredentials(upTo: limit, firstChecks: share, at: now)).map { String($0.prefix(3)) }
        }
        try await store.signIn("good", token: "r", at: .start + .hours(1), now: .start + .hours(1), isAccepted: true)
        #expect(try await claim(1, 0) == ["goo"], "its answer may close a breaker")
        #expect(try await claim(1, 0) == ["lat"])
        #expect(try await claim(1, 1) == ["new"])
        #expect(try await claim(4, 2) == ["new", "new", "lat", "lat"])
        #expect(try await claim(3, 1) == ["new", "new", "lat"], "what the others leave")
        #expect(try await claim(9, 0) == ["new"])
    }

    /// The claim carries the proof of its client, and the team of the proof.
    @Test func aClaimSaysWhetherAppleHadAcceptedTheTokenAndFromWhom() async throws {
        try await store.signIn(token: "r")
        var due = try await store.claimCredentials(at: .start + .days(1))[0]
        #expect(!due.wasAccepted && due.verifiedTeam == nil)
        due.teamID = "OLDTEAM001"
        try await store.settle(.valid, about: due, at: .start + .days(1))
        #expect(try await store.column("SELECT verified_team FROM credential") == ["OLDTEAM001"])
        let canaries = try await store.ports.takeCanaries(["user"], of: "example", upTo: 1, at: .start + .days(1))
        #expect(canaries.map(\.wasAccepted) == [true] && canaries.map(\.verifiedTeam) == ["OLDTEAM001"])
        due = try await store.claimCredentials(at: .start + .days(3))[0]
        #expect(due.wasAccepted && due.verifiedTeam == "OLDTEAM001")
        due.teamID = "NEWTEAM001"
        #expect(try await store.settle(.refresh(due, .rejected(at: .start + .days(3))), at: .start + .days(3)) == .held)
        #expect(try await store.column("SELECT pending_since FROM credential") == [nil])
        func teams(besides team: String) async throws -> [String: Int] {
            try await store.ports.tokens(of: "example", fromTeamsBesides: team, upTo: 10)
        }
        #expect(try await teams(besides: "NEWTEAM001") == ["OLDTEAM001": 1])
        #expect(try await teams(besides: "OLDTEAM001").isEmpty)
        #expect(try await store.ports.tokens(of: "other", fromTeamsBesides: "NEWTEAM001", upTo: 10).isEmpty)
        try await store.requestRevocation("user", at: .start + .days(4))
        try await store.settleRequests(at: .start + .days(4))
        let token = try await store.claimRevocations(at: .start + .days(4))[0]
        #expect(token.verifiedTeam == "OLDTEAM001")
        // A new token has no known owner yet.
        try await store.signIn(token: "new", at: .start + .days(5))
        #expect(try await store.column("SELECT verified_team FROM credential") == [nil])
        #expect(try await teams(besides: "NEWTEAM001").isEmpty)
    }

    /// A claim skips credentials of a client that Apple refuses, except one for a try.
    @Test func eachClientHasItsQuota() async throws {
        let now = Timestamp.start + .days(3)
        try await store.signIn("a", client: "web", token: "ra")
        try await store.refresh(.valid, at: .start + .minutes(10))
        try await store.signIn("b", client: "web", token: "rb", at: now - .minutes(11))
        try await store.signIn("c", token: "rc", at: now - .minutes(11))
        func claim(_ quotas: [String: Int], preferring preferred: Set<String> = []) async throws -> [String] {
            users(try await store.claimCredentials(upTo: 10, at: now, preferring: preferred, quotas: quotas))
        }
        #expect(try await claim(["web": 0, "app": 0]).isEmpty)
        #expect(try await claim(["web": 0], preferring: ["web"]) == ["c"])
        #expect(try await claim(["web": 1]) == ["b"], "a first check or another")
        #expect(try await claim(["web": 1], preferring: ["web"]) == ["a"])
    }

    @Test func anUnknownAppHasNone() async throws {
        try await store.signIn(token: "r")
        #expect(try await store.claimCredentials(of: "nobody's", at: .start + .days(2)).isEmpty)
    }

    @Test func eachUnsettledClaimDoublesTheLease() async throws {
        try await store.signIn(token: "r")
        var now = Timestamp.start + .days(2)
        for attempt in 1...4 {
            let claimed = try await store.claimCredentials(at: now)
            #expect(claimed.map(\.claim.attempts) == [attempt])
            let end = now + StoreUnderTest.policy.lease(attempts: attempt - 1)
            #expect(try await store.claimCredentials(at: end - .milliseconds(1)).isEmpty)
            now = end
        }
    }

    /// An operator set the clock back by a year. No check waits for a year.
    @Test func aDueTimeThatNobodySetsIsNoReasonToWait() async throws {
        try await store.signIn(token: "r", at: .start - .days(2), now: .start + .days(365))
        #expect(try await store.claimCredentials(at: .start).isEmpty)
        let longest = Timestamp.start + StoreUnderTest.policy.longestDelay
        #expect(try await store.column("SELECT next_check_at FROM credential_state") == [.at(longest)])
        #expect(try await store.claimCredentials(at: longest).count == 1)
    }

    @Test func thoseOverdueAreCounted() async throws {
        for number in 1...5 { try await store.signIn("user\(number)", token: "r") }
        let now = Timestamp.start + .days(2)
        #expect(try await store.ports.overdueCredentials(before: .start, upTo: 100) == ["example": 0, "other": 0])
        #expect(try await store.ports.overdueCredentials(before: now, upTo: 100) == ["example": 5, "other": 0])
        #expect(try await store.ports.overdueCredentials(before: now, upTo: 3) == ["example": 3, "other": 0])
    }
}
