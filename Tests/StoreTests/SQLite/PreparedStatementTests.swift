// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import Testing

@testable import SQLiteStore

@Suite struct PreparedStatementTests {
    private func withTable(_ body: (Database) throws -> Void) throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: "CREATE TABLE value (id INTEGER PRIMARY KEY, text TEXT, bytes BLOB, number INTEGER CHECK (number <> 13)) STRICT"
            )
            try body(db)
        }
    }

    /// An empty text is not NULL, and a NUL ends no text.
    @Test(arguments: ["", "a", "a\u{0}b", "Ω", String(repeating: "long ", count: 1000)]) func textComesBackAsItWas(_ text: String) throws {
        try withTable { db in
            try PreparedStatement("INSERT INTO value (text, bytes) VALUES (?, ?)", in: db).run(bound(text, Array(text.utf8)))
            var count = 0
            try PreparedStatement("SELECT text, bytes, text IS NULL OR bytes IS NULL FROM value", in: db).forEachRow([]) { row in
                #expect(row.text(at: 0).map { Array($0.utf8) } == Array(text.utf8))
                #expect(row.bytes(at: 1) == Array(text.utf8) && row.integer(at: 2) == 0)
                count += 1
            }
            #expect(count == 1)
        }
    }

    @Test func nilIsNull() throws {
        try withTable { db in
            let values = bound(nil as String?, nil as [UInt8]?, nil as Timestamp?)
            try PreparedStatement("INSERT INTO value (text, bytes, number) VALUES (?, ?, ?)", in: db).run(values)
            var count = 0
            try PreparedStatement("SELECT text, bytes, number FROM value", in: db).forEachRow([]) { row in
                #expect((0...2).allSatisfy { row.isNull(at: $0) } && row.text(at: 0) == nil)
                #expect(row.bytes(at: 1) == [] && row.time(at: 2) == nil)
                count += 1
            }
            #expect(count == 1)
        }
    }

    /// A value of the previous run would be a false fact about another user.
    @Test func nothingIsLeftOfTheRunBefore() throws {
        try withTable { db in
            let insert = try PreparedStatement("INSERT INTO value (text, number) VALUES (?, ?)", in: db)
            try insert.run(bound("first", 1))
            try insert.run(bound(nil as String?, nil as Int64?))
            var found: [String?] = []
            try PreparedStatement("SELECT text FROM value ORDER BY id", in: db).forEachRow([]) { found.append($0.text(at: 0)) }
            #expect(found == ["first", nil])
        }
    }

    @Test func aBrokenRuleIsTheErrorThatGRDBWouldThrow() throws {
        try withTable { db in
            let insert = try PreparedStatement("INSERT INTO value (number) VALUES (?)", in: db)
            let error = #expect(throws: DatabaseError.self) { try insert.run(bound(13)) }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_CHECK)
            #expect(error.map { StoreError($0) }.map { if case .refused = $0 { true } else { false } } == true)
            try insert.run(bound(14))
            #expect(try Int.fetchOne(db, sql: "SELECT number FROM value") == 14)
        }
    }
}
