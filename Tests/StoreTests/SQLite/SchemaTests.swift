// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import Testing

@testable import SQLiteStore

/// The schema is a promise: a change to it needs a migration and an entry in the changelog.
@Suite struct SchemaTests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../Schema.sql").standardized

    private func dump() async throws -> String {
        let sqlite = try SQLiteStore.inMemory()
        return try await SQLiteDoor(sqlite.writer).rows(
            """
            SELECT sql FROM sqlite_schema
             WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'grdb\\_%' ESCAPE '\\'
             ORDER BY rowid
            """,
            []
        ).compactMap { $0[0].text.map { $0 + ";\n" } }.joined(separator: "\n")
    }

    /// To write the file anew: `WRITE_SCHEMA=1 make test ARGS="--filter SchemaTests"`.
    @Test func isTheOneThatWasPublished() async throws {
        let found = try await dump()
        if ProcessInfo.processInfo.environment["WRITE_SCHEMA"] != nil { try found.write(to: Self.file, atomically: true, encoding: .utf8) }
        #expect(found == (try String(contentsOf: Self.file, encoding: .utf8)))
    }

    /// docs/schema.md lists the columns before siwatch's own, and names every constraint and no other.
    @Test(arguments: BackendPages.queues)
    func theQueuesAreThoseOfTheContract(_ queue: String) async throws {
        let sqlite = try SQLiteStore.inMemory()
        let door = SQLiteDoor(sqlite.writer)
        let columns = try await door.rows("SELECT name FROM pragma_table_info(?) ORDER BY cid", [.text(queue)]).compactMap { $0[0].text }
        #expect(Array(columns.prefix { $0 != "due_at" }) == ["id"] + BackendPages.columns(of: queue).map { $0.name })
        let table = try await door.rows("SELECT sql FROM sqlite_schema WHERE name = ?", [.text(queue)])
        let constraints = try #require(table.first?[0].text).matches(of: /CONSTRAINT "([^"]+)"/).map { String($0.1) }
        #expect(BackendPages.constraints(of: queue).isSubset(of: constraints))
        for constraint in constraints where !BackendPages.constraints(of: queue).contains(constraint) {
            #expect(BackendPages.names(constraint, in: BackendPages.schema), "\(constraint)")
        }
    }

    /// The index of each ring and the code agree on the rejections that any sender could cause.
    @Test(arguments: RejectionReason.allCases)
    func theRingKnowsTheReasons(_ reason: RejectionReason) {
        let rings = UnsignedRing.allCases.filter { Schema.tables.members(of: $0).contains("'\(reason.rawValue)'") }
        #expect(rings == (reason.ring.map { [$0] } ?? []))
    }

    /// In the contract's list these are the reasons from `malformed` to `bad_signature`.
    @Test func rubbishIsWhatTheContractCallsRubbish() {
        #expect(
            RejectionReason.allCases.filter { $0.ring != nil }
                == [.malformed, .notAnEvent, .wrongAlgorithm, .forbiddenHeader, .unknownKey, .badSignature]
        )
    }
}
