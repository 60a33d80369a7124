// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Testing

@testable import PostgresStore

@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct RoleTests: ConformanceSuite {
    /// A connection to the store by the name of a role.
    private func door(as role: String) async throws -> PostgresDoor {
        // The tests trust every connection by the socket. The role is the whole server's, and other tests change it at the same time.
        try await store.run("DO $$ BEGIN PERFORM pg_advisory_xact_lock(1); ALTER ROLE \(role) LOGIN; END $$")
        return PostgresDoor(try PostgresUnderTest.address(store.postgres.address, as: role))
    }

    private func isRefused(_ sql: String, at door: PostgresDoor) async throws -> Bool {
        do {
            try await door.run(sql, [])
            return false
        } catch StoreError.readOnly(let text) {
            return text.hasPrefix("42501")
        }
    }

    @Test func aBackendInsertsFollowsAndReads() async throws {
        let backend = try await door(as: "siwatch_backend")
        let id = try await backend.rows("INSERT INTO notification_queue (payload) VALUES ('jws') RETURNING id", [])
        #expect(id == [[1]])
        let grant = "INSERT INTO grant_queue (client_id, user_id, refresh_token, granted_at) VALUES ('app', 'ann', 'r', ?)"
        try await backend.run(grant, [.at(.start)])
        try await backend.run("INSERT INTO revocation_queue (client_id, user_id) VALUES ('app', 'bob')", [])
        try await store.settleGrants(at: .start)
        #expect(try await backend.rows("SELECT to_state FROM credential_change WHERE id > 0", []) == [["authorized"]])
        #expect(try await backend.rows("SELECT user_id, state FROM user_state", []) == [["ann", "authorized"]])
        #expect(try await backend.rows("SELECT client_id FROM credential_state", []) == [["app"]])
        #expect(try await backend.rows("SELECT COUNT(*) FROM app_client", []) == [[3]])
        #expect(try await backend.rows("SELECT id, outcome FROM grant_outcome", []) == [[1, "applied"]])
        #expect(try await backend.rows("SELECT id, outcome FROM revocation_outcome", []) == [[1, "waiting"]])
        #expect(try await backend.rows("SELECT alive_at FROM heartbeat", []) == [[nil]])
    }

    @Test func nothingElse() async throws {
        let backend = try await door(as: "siwatch_backend")
        for sql in [
            "SELECT refresh_token FROM grant_queue", "SELECT payload FROM notification_queue", "SELECT sealed_token FROM credential",
            "SELECT sealed FROM secret", "SELECT payload FROM notification_log", "SELECT detail FROM grant_log",
            "SELECT outcome FROM revocation_log", "SELECT seen_at FROM replica",
            "UPDATE credential SET state = 'authorized'", "UPDATE grant_queue SET due_at = 0", "UPDATE credential_change SET to_state = ''",
            "DELETE FROM notification_queue", "DELETE FROM credential_change", "TRUNCATE grant_queue", "DROP TABLE secret",
            "INSERT INTO notification_queue (payload, due_at) VALUES ('x', 1)",
            "INSERT INTO notification_queue (id, payload) OVERRIDING SYSTEM VALUE VALUES (7, 'x')",
            "INSERT INTO grant_queue (client_id, user_id, claimed_by) VALUES ('app', 'ann', 'me')",
            "INSERT INTO revocation_queue (client_id, user_id, attempts) VALUES ('app', 'ann', 9)",
            "INSERT INTO credential_change (app, client_id, user_id, kind, source, occurred_at, recorded_at) VALUES ('', '', '', '', '', 0, 0)",
            "INSERT INTO operator_request (request, requested_at) VALUES ('{}', 0)",
            "SELECT setval('notification_queue_quiet', 4102444800000)", "SELECT setval('notification_queue_id_seq', 1)",
            "SELECT tell_of_insert()", "CREATE TABLE mine (id BIGINT)", "SELECT FROM schema_version FOR UPDATE",
            "DO $$ BEGIN LOCK TABLE credential_change IN ROW EXCLUSIVE MODE; END $$",
            "DO $$ BEGIN LOCK TABLE user_state IN ROW EXCLUSIVE MODE; END $$",
        ] {
            #expect(try await isRefused(sql, at: backend), "\(sql)")
        }
    }

    /// Each queue has a role of its own, for the backend that does nothing else.
    @Test(
        arguments: [
            ("notifications", "INSERT INTO notification_queue (payload) VALUES ('jws') RETURNING id"),
            ("grants", "INSERT INTO grant_queue (client_id, user_id) VALUES ('app', 'ann') RETURNING id"),
            ("revocations", "INSERT INTO revocation_queue (client_id, user_id) VALUES ('app', 'ann') RETURNING id"),
        ]
    )
    func oneQueueOnly(_ name: String, _ insert: String) async throws {
        let door = try await door(as: "siwatch_\(name)")
        #expect(try await door.rows(insert, []) == [[1]])
        for other in ["notification_queue", "grant_queue", "revocation_queue"] where !insert.contains(other) {
            #expect(try await isRefused("SELECT id FROM \(other)", at: door))
            #expect(try await isRefused("INSERT INTO \(other) DEFAULT VALUES", at: door))
        }
        for table in ["user_state", "credential_change", "credential"] { #expect(try await isRefused("SELECT 1 FROM \(table)", at: door)) }
    }

    @Test(arguments: ["INSERT INTO notification_queue (payload) VALUES ('jws')", "SELECT id FROM grant_queue", "SELECT 1 FROM credential"])
    func aReaderOnlyReads(_ sql: String) async throws {
        let door = try await door(as: "siwatch_reader")
        #expect(try await isRefused(sql, at: door))
        for view in ["user_state", "grant_outcome", "revocation_outcome"] {
            #expect(try await door.rows("SELECT 1 FROM \(view)", []).isEmpty)
        }
    }
}
