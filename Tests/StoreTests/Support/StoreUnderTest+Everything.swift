// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

extension StoreUnderTest {
    /// Calls everything once that a daemon and its commands call, so that every statement has run.
    func askEverything() async throws {
        try await signIn(token: "r", email: EmailAddress("a@example.com"))
        try await signIn(client: "forgotten")
        try await notify(.emailDisabled(nil), at: .start + .minutes(1))
        try await notify(.emailDisabled(nil), at: .start + .minutes(1))
        try await refresh(.valid, at: .start + .days(2))
        try await grant(at: .start + .days(4))
        try await notify(.consentRevoked, at: .start + .days(3))
        try await run("UPDATE counter SET value = 10000 WHERE name = 'quarantine_unknown_key_rows'")
        try await receive(at: .start + .days(3))
        try await settleNotifications(at: .start + .days(3), as: .rejected(.unknownKey, detail: "new"))
        let key = SigningKeyRecord(keyID: "new", jwk: "{}", lastSeenAt: .start)
        try await ports.remember([key], forgetting: [])
        try await askForRejections()
        try await askForCodesAndRevocations()
        for request: OperatorRequest in [
            .pause(app: "example"), .resume(app: "example"), .recheckUser("user"), .recheckApp("example"),
            .retryQuarantined([1], receivedAt: nil), .dropQuarantined([1]), .confirmRejections(app: "example"),
        ] {
            _ = try await ask(request)
        }
        for request: OperatorRequest in [.confirmRevocations(app: "example", count: 9), .dropRevocations(app: "example")] {
            try await run("UPDATE app SET revocations_held_at = 1")
            _ = try await ask(request)
        }
        try await signIn("gone", token: "g", email: EmailAddress("g@example.com"))
        // The command's search reads whole logs, the daemon's transaction none.
        let erasure = ErasureRequest(of: "gone", in: "example", as: "forgotten:gone", evenIfAuthorized: true, found: PersonalData())
        _ = try await ask(.forget(erasure))
        try await askWhatThereIs()
    }

    private func askForRejections() async throws {
        _ = try await ports.takeCanaries(["good"], of: "example", upTo: 10, at: .start)
        try await signIn("left", token: "r")
        try await reject("left", at: .start + .days(5))
        try await run("UPDATE credential SET due_at = 1 WHERE user_id = 'left'")
        _ = try await claimCredentials(at: .start + .days(5))
        try await admit(at: .start + .days(5) + .hours(1))
        _ = try await ports.countMissedNotifications(at: .start + .days(6))
        try await signIn("open", token: "r")
        try await reject("open", at: .start + .days(7), finding: .blamed)
        let all: Set = ["app", "web"]
        _ = try await claimCredentials(upTo: 1, at: .start + .days(9), preferring: all)
        _ = try await ports.claimFirstChecks(of: all, upTo: 1, at: .start, policy: StoreUnderTest.policy)
    }

    private func askForCodesAndRevocations() async throws {
        let now = Timestamp.start + .days(10)
        try await grant("coder", code: "c", at: now)
        _ = try await claimCodes(upTo: 10, at: now)
        try await signIn("leaving", token: "l", at: now)
        try await requestRevocation("leaving", at: now + .seconds(1))
        _ = try await ports.firstRequestToRevoke(CredentialID(clientID: "app", userID: "leaving"), since: now)
        _ = try await ports.isSignedIn(CredentialID(clientID: "app", userID: "leaving"), besides: 1)
        try await settleRequests(at: now + .seconds(1))
        _ = try await ports.dueRevocations(upTo: 10, at: now + .seconds(2))
        for work in try await claimRevocations(at: now + .seconds(2)) {
            _ = try await settle(.revocation(work, .failed(at: now + .seconds(3))), at: now + .seconds(3))
        }
    }

    private func askWhatThereIs() async throws {
        _ = try await ports.overdueCredentials(before: .start, upTo: 10)
        _ = try await ports.apps()
        _ = try await ports.foreignTokens(of: "example", after: nil, upTo: 10)
        _ = try await ports.doubtedTokens(of: "example", after: nil, upTo: 10)
        _ = try await ports.neverAcceptedTokens(of: "example", after: nil, upTo: 10)
        _ = try await ports.tokens(of: "example", fromTeamsBesides: "TEAM", upTo: 10)
        _ = try await ports.waitingGrants(at: .start, upTo: 10)
        _ = try await ports.newestNotifications(upTo: 10)
        _ = try await ports.clients()
        _ = try await ports.refusedClients(at: .start, upTo: 10)
        _ = try await ports.breakers()
        _ = try await ports.unknownCanaries(["user"], of: "example")
        _ = try await ports.checks()
        try await askForSealedBytes()
    }

    private func askForSealedBytes() async throws {
        _ = try await ports.sealedBlobs()
        _ = try await ports.sealedBlobs(where: { _ in true })
        while try await !ports.reseal(upTo: 10, { _ in [1] }).isDone {}
        try await ports.noteSeals(["00000000": 1])
        try await ports.noteSealedBlobs(["00000000": 1], lost: [:], at: .start)
        _ = try await ports.sealedCounts()
    }
}
