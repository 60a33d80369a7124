// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import Testing

@testable import SQLiteStore

struct FullFile {
    let store: StoreUnderTest
    var database: DatabaseFile { DatabaseFile(path: store.file.path) }

    init() async throws {
        store = try StoreUnderTest()
        try await liveALittle()
        try await leaveWork()
        try await fillTheRest()
        // Each start of siwatch does this, and each move.
        try store.sqlite.recover()
    }

    func contents() throws -> SQLiteContents { try SQLiteContents(database) }

    private func liveALittle() async throws {
        _ = try store.sqlite.sealedSecret(named: "fingerprint") { [0, 1, 255] }
        var traffic = RandomTraffic(store: store, seed: 7)
        for _ in 0..<60 { try await traffic.step() }
        try await traffic.drain()
        for number in 1...20 {
            let address = EmailAddress("é\(number)@example.com")
            try await store.signIn("person \(number)", token: "t\(number)", email: address, isAccepted: number <= 10)
        }
        try await store.notify(.consentRevoked, "person 1", at: .start + .hours(1))
        try await store.notify(.accountDeleted, "person 2", client: "web", at: .start + .hours(2))
        try await store.notify(.emailDisabled(EmailAddress("relay@example.com", isPrivate: true)), "person 3", at: .start + .hours(3))
        try await store.reject("person 4", at: .start + .hours(4))
        try await store.admit(AdmissionRule(answered: .earliest...(.start + .hours(5))), at: .start + .hours(5))
        try await store.reject("person 5", at: .start + .hours(6))
        try await store.signIn("person 8", client: "web")
        try await revoke("person 8", at: .start + .hours(7))
        _ = try await store.ask(.pause(app: "other"))
    }

    /// The app asks siwatch to revoke a user's grants, and siwatch proves the revocation of each token.
    private func revoke(_ user: String, at now: Timestamp) async throws {
        try await store.requestRevocation(user, at: now)
        try await store.settleRequests(at: now)
        for word in [RevocationProof.Answer.Word.accepted, .revoked, .rejected] { try await store.settleTokens(word, at: now) }
    }

    /// Waiting rows, claimed rows, and rows that siwatch cannot settle yet.
    private func leaveWork() async throws {
        try await store.receive(3, at: .start + .days(1))
        _ = try await store.claimNotifications(upTo: 2, at: .start + .days(1))
        try await store.receive([0x7b, 0xff, 0x00, 0x7d], at: .start + .days(1))
        try await store.receive("é", at: .start + .days(1))
        try await store.grant("waits", client: "forgotten", token: "r", email: EmailAddress(""), at: .start)
        try await store.grant("sealed", sealed: [UInt8](repeating: 7, count: 62))
        try await store.grant(nil, code: "code", at: .start)
        try await store.settleGrants(at: .start) { _ in .unknownClient(lookedAt: .start) }
        try await store.requestRevocation("person 6", at: .start + .hours(7))
        try await store.settleRequests(at: .start + .hours(8))
        try await store.requestRevocation("nobody", client: "elsewhere", at: .start + .hours(7))
        try await store.run(
            """
            INSERT INTO notification_quarantine (payload, received_at, rejected_at, reason, detail)
            VALUES ('x', 1, 2, 'unknown_key', CAST(? AS TEXT))
            """,
            [.bytes(Array("not yours: \u{0}".utf8))]
        )
    }

    private func fillTheRest() async throws {
        let keys = [SigningKeyRecord(keyID: "A", jwk: "{}", lastSeenAt: .start + .days(1))]
        try await store.ports.remember(keys, forgetting: [])
        try await store.run("INSERT INTO canary (user_id, client, asked_at) SELECT user_id, client, 5 FROM credential LIMIT 2")
        try await store.run(
            """
            INSERT INTO admitted_rejection (app, client, user_id, granted_at, rejected_at, admitted_at)
            SELECT app, client, user_id, 1, 2, 3 FROM credential LIMIT 2
            """
        )
        try await store.run("UPDATE client SET refused_since = 1, refused_at = 2, refusal = 'invalid_client: é' WHERE client_id = 'web'")
        try await store.run("INSERT INTO operator_request (request, requested_at) VALUES ('{}', 1)")
        let receipt = "request, client_id, user_id, requested_at, settled_at, outcome"
        try await store.run("INSERT INTO revocation_log (\(receipt)) VALUES (1, 'app', 'u', 1, 2, 'no_token')")
        let key = "INSERT INTO request_key (client, key, digest, row_id, told_at) VALUES ('web', 'é', ?, 3, 4)"
        try await store.run(key, [.bytes([1, 0])])
        try await store.run("INSERT INTO import (name, told, told_from, told_to) VALUES ('é', 3, 1, 2)")
        try await store.run("UPDATE grant_queue SET import_id = 1 WHERE id = (SELECT MIN(id) FROM grant_queue)")
        try await store.run("UPDATE credential SET imported_by = 1 WHERE user_id = (SELECT MIN(user_id) FROM credential)")
        try await store.run("INSERT INTO delivery VALUES ('hook', 5, NULL)")
        try await store.run("INSERT INTO delivery_retry VALUES ('hook', 4, 2, NULL, 3, 'status 500')")
        // The rows with the greatest ids are gone.
        try await store.run("DELETE FROM credential_change WHERE id > (SELECT MAX(id) - 2 FROM credential_change)")
    }
}
