// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct CodeClaimTests: ConformanceSuite {
    private func codes(_ claimed: [ClaimedCode]) -> [String?] { claimed.map { $0.content?.code.reveal } }

    @Test func areReadAsTheyWereWritten() async throws {
        try await store.run(
            """
            INSERT INTO grant_queue (client_id, user_id, authorization_code, redirect_uri, nonce, granted_at)
            VALUES ('web', 'ann', 'c', 'https://a.example/', 'n', ?)
            """,
            [.at(.start - .minutes(1))]
        )
        let columns = "client_id, authorization_code, redirect_uri, nonce, granted_at"
        try await store.run("INSERT INTO grant_queue (\(columns)) VALUES ('app', 'd', '', '', ?)", [.at(.start)])
        let claimed = try await store.claimCodes()
        let (web, app) = (claimed[0], claimed[1])
        #expect(web.app == "example" && web.grantedAt == .start - .minutes(1) && web.firstClaimedAt == .start)
        #expect(web.deadline == .start + .minutes(4) && web.claim.attempts == 1 && web.failures == 0 && !web.isAnswerLost)
        #expect(web.content?.userID == "ann" && web.content?.redirectURI == "https://a.example/" && web.content?.nonce == "n")
        // A native sign-in has neither redirect URI nor nonce.
        #expect(app.content?.userID == nil && app.content?.redirectURI == nil && app.content?.nonce == nil)
        #expect(try await store.claimCodes().isEmpty, "leased")
        let again = try await store.claimCodes(at: .start + StoreUnderTest.lease)
        #expect(again.map(\.claim.attempts) == [2, 2] && again.allSatisfy { $0.firstClaimedAt == .start })
    }

    /// The first claim's answer comes late, after a settlement has begun the count of attempts anew.
    @Test func aLateAnswerDoesNotPassForTheOneOfALaterClaim() async throws {
        try await store.grant(nil, code: "c")
        let first = try await store.claimCodes()[0]
        let later = Timestamp.start + StoreUnderTest.lease
        let second = try await store.claimCodes(at: later)[0]
        #expect(try await store.settle(.code(second, .failed(at: later, isAnswerLost: false)), at: later) == .postponed)
        let third = try await store.claimCodes(at: later + .seconds(1))
        #expect(third.map(\.claim.attempts) == [first.claim.attempts])
        #expect(try await store.settle(.code(first, .rejected(.codeUsed)), at: later + .seconds(1)) == .superseded)
    }

    @Test func theNearestDeadlineComesFirst() async throws {
        for (code, seconds) in [("last", 0), ("first", -200), ("middle", -100)] {
            try await store.grant(nil, code: code, at: .start + .seconds(seconds))
        }
        #expect(codes(try await store.claimCodes(upTo: 2)) == ["first", "middle"])
        #expect(codes(try await store.claimCodes(upTo: 2)) == ["last"])
        #expect(try await store.claimCodes(upTo: 0).isEmpty)
    }

    @Test func eachAppHasItsPermits() async throws {
        for code in ["a", "b", "c"] { try await store.grant(nil, code: code) }
        try await store.grant(nil, client: "elsewhere", code: "d")
        #expect(codes(try await store.claimCodes(permits: ["example": 0, "other": 1])) == ["d"])
        #expect(codes(try await store.claimCodes(permits: ["example": 2])) == ["a", "b"])
        #expect(try await store.count("grant_queue WHERE attempts = 0") == 1)
    }

    /// A claim skips codes of a client that Apple refuses, except one for a try, and codes after their deadline.
    @Test func eachClientHasItsQuota() async throws {
        for code in ["a", "b"] { try await store.grant(nil, client: "web", code: code) }
        try await store.grant(nil, client: "web", code: "late", at: .start - .minutes(5))
        try await store.grant(nil, code: "c")
        #expect(codes(try await store.claimCodes(quotas: ["web": 0])) == ["late", "c"])
        #expect(try await store.claimCodes(quotas: ["web": 0]).isEmpty)
        #expect(codes(try await store.claimCodes(quotas: ["web": 1])) == ["a"])
        #expect(codes(try await store.claimCodes()) == ["b"])
    }

    /// However many codes wait for an app that may ask nothing now, for a refused client, or for an unknown one.
    @Test func codesThatMayNotBeSentHideNoOther() async throws {
        for client in ["elsewhere", "web", "nobody's"] {
            let values = [SQLValue.text(client), .at(.start - .minutes(1))]
            try await store.insert(10_500, into: "grant_queue (client_id, authorization_code, granted_at)", "?, 'c' || n, ?", values)
        }
        try await store.grant(nil, code: "good")
        var now = Timestamp.start
        // The claims put the unknown client's codes off once.
        for _ in 1...2 {
            let unknown = try await store.claimCodes(upTo: 6000, permits: ["example": 0, "other": 0], at: now)
            #expect(!unknown.isEmpty && unknown.allSatisfy { $0.app == nil })
            _ = try await store.settle(unknown.map { .code($0, .unknownClient) }, at: now)
        }
        now = now + .seconds(1)
        #expect(codes(try await store.claimCodes(permits: ["example": 1, "other": 0], at: now, quotas: ["web": 0])) == ["good"])
    }

    /// Retries are due among new codes, and neither waits for the other.
    @Test func aRetryHasItsPlaceByItsDeadline() async throws {
        try await store.grant(nil, code: "second", at: .start - .seconds(10))
        try await store.settleCodes(as: .failed(at: .start, isAnswerLost: false))
        for (code, seconds) in [("first", -20), ("third", 0), ("fourth", 1)] {
            try await store.grant(nil, code: code, at: .start + .seconds(seconds))
        }
        #expect(codes(try await store.claimCodes(upTo: 3, at: .start + .seconds(2))) == ["first", "second", "third"])
    }

    @Test func whatIsNotSentNeedsNoPermit() async throws {
        try await store.grant(nil, code: "late", at: .start - .minutes(5))
        try await store.grant(nil, client: "nobody's", code: "unknown")
        let noText = "INSERT INTO grant_queue (client_id, authorization_code, granted_at) VALUES ('app', CAST(x'C328' AS TEXT), ?)"
        try await store.run(noText, [.at(.start)])
        try await store.grant(nil, code: "good")
        let claimed = try await store.claimCodes(permits: ["example": 0])
        #expect(codes(claimed) == ["late", "unknown"])
        #expect(claimed.map(\.app) == ["example", nil])
    }

    @Test func aSuspectComesAlone() async throws {
        try await store.grant(nil, code: "suspect", at: .start - .seconds(1))
        _ = try await store.claimCodes()
        _ = try await store.claimCodes(at: .start + .minutes(1))
        let now = Timestamp.start + .minutes(2)
        try await store.grant(nil, code: "other")
        #expect(try await store.claimCodes(at: now, suspects: false).isEmpty, "something is under way that it could take along")
        #expect(codes(try await store.claimCodes(at: now)) == ["suspect"])
        #expect(codes(try await store.claimCodes(at: now)) == ["other"])
    }

    /// A due time that siwatch never gives a code.
    @Test func aClockThatWasSetBackStallsNothing() async throws {
        try await store.grant(nil, code: "c", at: .start + .hours(1))
        #expect(codes(try await store.claimCodes(at: .start + .hours(1))) == ["c"])
        let claimed = try await store.claimCodes()
        #expect(codes(claimed) == ["c"] && claimed[0].claim.attempts == 2)
        #expect(claimed[0].deadline == .start + .minutes(5), "it was first seen at a time that has yet to come")
    }

    @Test func whatIsPutOffIsWrittenDown() async throws {
        try await store.grant(nil, code: "c")
        #expect(try await store.settleCodes(as: .failed(at: .start, isAnswerLost: true, detail: "timeout")) == [.postponed])
        let rows = try await store.rows("SELECT due_at, attempts, claimed_by, failures, answer_lost, waits_since, detail FROM grant_queue")
        #expect(rows == [[.at(.start + .milliseconds(500)), 0, nil, 1, 1, .at(.start), "timeout"]])
        #expect(try await store.claimCodes(at: .start + .milliseconds(499)).isEmpty)
        let again = try await store.claimCodes(at: .start + .milliseconds(500))[0]
        #expect(again.failures == 1 && again.isAnswerLost && again.claim.attempts == 1 && again.detail == "timeout")
        // A result without an answer leaves Apple's last error.
        _ = try await store.settle(.code(again, .unpermitted(at: .start + .milliseconds(500))), at: .start + .milliseconds(500))
        #expect(try await store.column("SELECT detail FROM grant_queue") == ["timeout"])
    }

    @Test func whatApplesLastWordWasIsShown() async throws {
        for (code, detail) in [("a", "invalid_client: bad"), ("b", "status 503")] {
            try await store.grant("ann", code: code)
            try await store.settleCodes(as: .failed(at: .start, isAnswerLost: false, detail: detail))
        }
        let waiting = try await store.ports.history(of: "ann", upTo: 100).waiting
        #expect(waiting.map(\.detail) == ["invalid_client: bad", "status 503"])
    }

    /// A backend may write to any column.
    @Test(.on(.file), arguments: [Int64.max, .min, -1]) func oddCountsHarmNobody(_ count: Int64) async throws {
        try await store.run(
            """
            INSERT INTO grant_queue (client_id, authorization_code, granted_at, failures, attempts, answer_lost, waits_since, due_at)
            VALUES ('app', 'c', ?1, ?2, ?2, ?2, ?2, ?2)
            """,
            [.at(.start), .integer(count)]
        )
        let work = try await store.claimCodes()[0]
        #expect((0...1000).contains(work.failures))
        #expect(try await store.settle(.code(work, .failed(at: .start, isAnswerLost: false))) == .postponed)
    }

    // MARK: Settled

    @Test func theTokenIsSealedAndTheRowGoneInOneCommit() async throws {
        try await store.grant(nil, code: "c")
        let work = try await store.claimCodes()[0]
        let id = CredentialID(clientID: "app", userID: "ann")
        let grant = Grant(grantedAt: .start, token: .sealed(Secret("r"), for: id, grantedAt: .start))
        let verdict = CodeVerdict.exchanged(grant, id, requestedAt: .start, answeredAt: .start)
        #expect(try await store.settle(.code(work, verdict)) == .grant(.applied, nil))
        #expect(try await store.settle(.code(work, verdict)) == .superseded)
        #expect(try await store.rows("SELECT client_id, user_id, outcome, reason FROM grant_log") == [["app", "ann", "applied", nil]])
        #expect(try await store.rows("SELECT user_id, state, verified_at FROM user_state") == [["ann", "authorized", .at(.start)]])
        #expect(try await store.sealedTokens == 1)
        #expect(try await store.ports.queues().first { $0.queue == "grant" }?.depth == 0)
        #expect(try await store.claimCredentials(at: .start + .hours(23)).isEmpty, "no early first check")
    }

    @Test func everyRefusalIsLoggedWithItsReason() async throws {
        for reason in GrantRejection.allCases {
            try await store.grant(nil, code: "c")
            #expect(try await store.settleCodes(as: .rejected(reason, detail: "words")) == [.grant(.rejected, reason)])
        }
        let log = try await store.rows("SELECT client_id, user_id, outcome, reason, detail FROM grant_log ORDER BY id")
        #expect(log == GrantRejection.allCases.map { ["app", nil, "rejected", .text($0.rawValue), "words"] })
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test(
        .on(.file),
        arguments: ["client_id", "user_id", "authorization_code", "redirect_uri", "nonce"],
        ["CAST(x'C328' AS TEXT)", "CAST(zeroblob(8200) AS TEXT)", "printf('%.*c', 8193, 'a')"]
    )
    func whatIsNoTextOrTooLongIsMalformed(_ column: String, _ value: String) async throws {
        let values = ["client_id": "'app'", "user_id": "'ann'", "authorization_code": "'c'"].merging([column: value]) { $1 }
        guard !value.contains("zeroblob") else {
            await #expect(throws: (any Error).self) { try await store.insert(into: "grant_queue", values) }
            return
        }
        try await store.insert(into: "grant_queue", values)
        let now = Timestamp(milliseconds: 4_000_000_000_000)
        let work = try await store.claimCodes(at: now)[0]
        #expect(work.content == nil)
        #expect(try await store.settle(.code(work, .rejected(.malformed)), at: now) == .grant(.rejected, .malformed))
        #expect(try await store.column("SELECT reason FROM grant_log") == ["malformed"])
    }

    // MARK: Effects on other lanes

    /// A code lives only minutes, so other lanes wait for it even when it was put off.
    @Test func holdsBackTheEndOfItsUsersSignIn() async throws {
        try await store.signIn("ann", token: "r")
        try await store.grant("ann", client: "web", code: "c", at: .start + .minutes(1))
        let now = Timestamp.start + .minutes(1)
        try await store.settleCodes(at: now, as: .failed(at: now, isAnswerLost: false))
        #expect(try await store.notify(.consentRevoked, "ann", at: .start + .seconds(30), now: now) == .postponed)
        try await store.settleCodes(at: now + .seconds(1), as: .rejected(.codeExpired))
        let event = try await store.claimNotifications(at: now + .seconds(2))[0]
        let verdict = NotificationVerdict.event(.consentRevoked, "ann", at: .start + .seconds(30))
        #expect(try await store.settle(.notification(event, verdict), at: now + .seconds(2)) == .notification(.applied))
    }

    @Test func whoIsSignedInElsewhereIsKnown() async throws {
        let ann = CredentialID(clientID: "app", userID: "ann")
        #expect(try await !store.ports.isSignedIn(ann, besides: 0))
        try await store.grant("ann", client: "web", token: "r")
        #expect(try await store.ports.isSignedIn(ann, besides: 0), "at any client")
        try await store.settleGrants(at: .start)
        #expect(try await store.ports.isSignedIn(ann, besides: 0))
        #expect(try await !store.ports.isSignedIn(CredentialID(clientID: "elsewhere", userID: "ann"), besides: 0), "of that app")
        #expect(try await !store.ports.isSignedIn(CredentialID(clientID: "nobody's", userID: "ann"), besides: 0))
        try await store.notify(.consentRevoked, "ann", at: .start + .seconds(1))
        #expect(try await !store.ports.isSignedIn(ann, besides: 0), "erased")
    }

    @Test func anotherCodeThatWaitsMayBeASignIn() async throws {
        let ann = CredentialID(clientID: "app", userID: "ann")
        try await store.grant("ann", code: "c")
        #expect(try await store.ports.isSignedIn(ann, besides: 0))
        let work = try await store.claimCodes()[0]
        #expect(try await !store.ports.isSignedIn(ann, besides: work.id))
        // Another code is under way, and may be the good one.
        try await store.grant("ann", code: "d")
        _ = try await store.claimCodes()
        #expect(try await store.ports.isSignedIn(ann, besides: work.id))
    }
}
