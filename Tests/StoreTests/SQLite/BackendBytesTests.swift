// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB
import Testing

/// Backends write any bytes, and SQLite's text may hold anything.
@Suite(.eachStore, .on(.file)) struct BackendBytesTests: ConformanceSuite {
    private func claim(
        client: [UInt8] = Array("app".utf8),
        user: [UInt8] = Array("user".utf8),
        token: [UInt8] = Array("r".utf8),
        email: [UInt8] = Array("a@example.com".utf8)
    ) async throws -> (StoreUnderTest, ClaimedGrant) {
        let store = try StoreUnderTest()
        try await store.run(
            """
            INSERT INTO grant_queue (client_id, user_id, refresh_token, email)
            VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT))
            """,
            [.bytes(client), .bytes(user), .bytes(token), .bytes(email)]
        )
        return (store, try await store.claimGrants()[0])
    }

    @Test func whatIsGoodIsReadAsItIs() async throws {
        #expect(try await claim().1.content?.refreshToken == Secret("r"))
        #expect(try await claim(user: Array("\u{fc}\u{1f600}".utf8)).1.content?.credential.userID == "\u{fc}\u{1f600}")
    }

    @Test(arguments: [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80], Array(repeating: 0x61, count: 8193)] as [[UInt8]])
    func whatIsNoTextOrTooLongIsMalformed(_ bytes: [UInt8]) async throws {
        let grants = [try await claim(client: bytes), try await claim(user: bytes), try await claim(token: bytes)]
        for (store, grant) in grants {
            #expect(grant.content == nil)
            #expect(try await store.settle(.grant(grant, .rejected(.malformed))) == .grant(.rejected, .malformed))
            let columns = "typeof(client_id), length(CAST(client_id AS BLOB)) > 0, typeof(user_id), outcome, reason"
            #expect(try await store.rows("SELECT \(columns) FROM grant_log") == [["text", 1, "text", "rejected", "malformed"]])
        }
    }

    @Test(arguments: [[0xff], [0xc3], [0xed, 0xa0, 0x80], Array(repeating: 0x61, count: 1025), []] as [[UInt8]])
    func anAddressThatCannotBeUsedIsLeftOut(_ bytes: [UInt8]) async throws {
        let content = try #require(try await claim(email: bytes).1.content)
        #expect(content.address == nil && content.refreshToken == Secret("r"))
    }

    @Test(arguments: ["client_id", "user_id", "refresh_token", "authorization_code"])
    func aNULIsRefusedWhereItWouldHideATail(_ column: String) async throws {
        for value in ["CAST(x'6100' AS TEXT)", "CAST(x'00' AS TEXT)", "''"] {
            let values = ["client_id": "'app'", "user_id": "'user'"].merging([column: value]) { $1 }
            await #expect(throws: (any Error).self) { try await store.insert(into: "grant_queue", values) }
        }
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test(arguments: [1_750_000_000, 1_750_000_000_000_000, 0, -1, 1_546_300_799_999, 4_102_444_800_001] as [Int64])
    func secondsAndMicrosecondsAreRefused(_ time: Int64) async throws {
        let time = Timestamp(milliseconds: time)
        await #expect(throws: (any Error).self) { try await store.receive(at: time) }
        await #expect(throws: (any Error).self) { try await store.grant(at: time) }
        await #expect(throws: (any Error).self) { try await store.requestRevocation(at: time) }
    }

    @Test(arguments: [0, 65_537]) func aPayloadHasALegalSize(_ size: Int) async throws {
        await #expect(throws: (any Error).self) { try await store.receive(Array(repeating: 0, count: size)) }
        try await store.receive(Array(repeating: 0, count: size == 0 ? 1 : size - 1))
    }

    /// What both stores refuse, and what ought to hold.
    static let refusals = [
        ("notification_queue (payload) VALUES ('')", "payload is 1 to 65536 bytes"),
        ("notification_queue (payload, received_at) VALUES ('x', 1)", "received_at is milliseconds since 1970"),
        ("grant_queue (client_id, user_id) VALUES ('', 'user')", "client_id is not empty and has no NUL"),
        ("grant_queue (client_id, user_id) VALUES ('app', '')", "user_id is not empty and has no NUL"),
        ("grant_queue (client_id) VALUES ('app')", "user_id is missing"),
        (
            "grant_queue (client_id, user_id, refresh_token) VALUES ('app', 'user', '')",
            "refresh_token is NULL or not empty, and has no NUL"
        ),
        (
            "grant_queue (client_id, user_id, refresh_token, authorization_code) VALUES ('app', 'user', 'r', 'c')",
            "a refresh_token, a token_sealed or an authorization_code"
        ),
        ("grant_queue (client_id, user_id, email_is_private) VALUES ('app', 'user', 2)", "email_is_private is 0, 1 or NULL"),
        ("grant_queue (client_id, user_id, granted_at) VALUES ('app', 'user', 1750000000)", "granted_at is milliseconds since 1970"),
        ("revocation_queue (client_id, user_id, requested_at) VALUES ('app', 'u', 1750000000)", "requested_at is milliseconds since 1970"),
    ]

    /// What only a file refuses, and what ought to hold.
    private static let refusalsOfAFile = [
        ("notification_queue (id, payload) VALUES (-7, 'x')", "id is not to be given"),
        ("grant_queue (client_id, authorization_code, redirect_uri) VALUES ('app', 'c', 'x' || char(0))", "redirect_uri has no NUL"),
        ("grant_queue (client_id, authorization_code, nonce) VALUES ('app', 'c', 'n' || char(0))", "nonce has no NUL"),
        ("grant_queue (client_id, user_id, token_sealed) VALUES ('app', 'user', zeroblob(61))", "token_sealed is 62 to 8253 bytes"),
        ("grant_queue (client_id, refresh_token) VALUES ('app', 'r')", "user_id is missing"),
        ("grant_queue (client_id, token_sealed) VALUES ('app', zeroblob(62))", "user_id is missing"),
        (
            "grant_queue (client_id, user_id, refresh_token, token_sealed) VALUES ('app', 'user', 'r', zeroblob(62))",
            "a refresh_token, a token_sealed or an authorization_code"
        ),
        (
            "grant_queue (client_id, user_id, authorization_code, token_sealed) VALUES ('app', 'user', 'c', zeroblob(62))",
            "a refresh_token, a token_sealed or an authorization_code"
        ),
        ("grant_queue (client_id, user_id, email) VALUES ('app', 'user', 'a@example.com' || char(0))", "email has no NUL"),
    ]

    private static let otherRefusals = [
        ("notification_queue (id, payload) VALUES (7, 'x')", "id is not to be given"),
        (
            "grant_queue (client_id, user_id, token_sealed) VALUES ('app', 'user', 'AQIDBA==')",
            "cannot store TEXT value in BLOB column grant_queue.token_sealed"
        ),
        (
            "grant_queue (client_id, user_id, email_is_private) VALUES ('app', 'user', 'true')",
            "cannot store TEXT value in INTEGER column grant_queue.email_is_private"
        ),
        (
            "grant_queue (client_id, user_id, granted_at) VALUES ('app', 'user', 'yesterday')",
            "cannot store TEXT value in INTEGER column grant_queue.granted_at"
        ),
    ]

    /// The message that a backend's developer reads.
    @Test(arguments: (refusals + refusalsOfAFile).map { ($0, "CHECK constraint failed: \($1)") } + otherRefusals)
    func aRefusalSaysWhatOughtToHold(_ insert: String, _ message: String) async throws {
        let error = await #expect(throws: DatabaseError.self) { try await store.run("INSERT INTO \(insert)") }
        #expect(error?.message == message)
    }

    @Test func whatIsNotGivenIsNow() async throws {
        try await store.run("INSERT INTO notification_queue (payload) VALUES ('jws')")
        try await store.run("INSERT INTO grant_queue (client_id, user_id) VALUES ('app', 'user')")
        try await store.run("INSERT INTO revocation_queue (client_id, user_id) VALUES ('app', 'user')")
        let now = Date.now.timeIntervalSince1970 * 1000
        for column in ["received_at FROM notification_queue", "granted_at FROM grant_queue", "requested_at FROM revocation_queue"] {
            let time = try #require(try await store.column("SELECT \(column)")[0].integer)
            #expect(abs(Double(time) - now) < 60_000)
        }
    }
}
