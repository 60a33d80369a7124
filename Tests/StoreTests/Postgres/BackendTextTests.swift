// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import CredentialTesting
import Testing

@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(10))) struct BackendTextTests: ConformanceSuite {
    @Test(arguments: ["convert_from('\\xc328', 'UTF8')", "convert_from('\\x6100', 'UTF8')", "chr(0)", "''"])
    func whatIsNoTextIsRefused(_ value: String) async throws {
        for column in ["client_id", "user_id", "refresh_token"] {
            let values = ["client_id": "'app'", "user_id": "'ann'"].merging([column: value]) { $1 }
            await #expect(throws: StoreError.self) { try await store.insert(into: "grant_queue", values) }
        }
        #expect(try await store.count("grant_queue") == 0)
    }

    @Test(arguments: ["client_id", "user_id", "authorization_code", "redirect_uri", "nonce"])
    func whatIsTooLongIsMalformed(_ column: String) async throws {
        let long = "repeat('a', \(["user_id", "client_id"].contains(column) ? 2048 : 8193))"
        let grantedAt = "\(Timestamp.start.milliseconds)"
        let values = ["client_id": "'app'", "user_id": "'ann'", "authorization_code": "'c'", "granted_at": grantedAt]
        try await store.insert(into: "grant_queue", values.merging([column: long]) { $1 })
        let claimed = try await store.claimCodes()
        let work = try #require(claimed.first)
        #expect(work.content == nil)
        #expect(try await store.settle(.code(work, .rejected(.malformed))) == .grant(.rejected, .malformed))
    }

    /// No index would take it, and the server's error would name a B-tree.
    @Test(arguments: [("grant_queue", "'c', 'r', "), ("revocation_queue", "'c', ")])
    func aUserThatIsFarTooLongIsRefusedByName(_ queue: String, _ others: String) async throws {
        let user = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, 100) n)"
        let columns = queue == "grant_queue" ? "client_id, refresh_token, user_id" : "client_id, user_id"
        await #expect {
            try await store.run("INSERT INTO \(queue) (\(columns)) VALUES (\(others)\(user))")
        } throws: {
            "\($0)".contains("user_id is at most 2048 bytes")
        }
    }
}
