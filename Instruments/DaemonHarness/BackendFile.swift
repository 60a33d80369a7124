// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB

/// An SQLite file, with the pragmas that docs/backend-sqlite.md asks for.
struct BackendFile: BackendDatabase {
    private let queue: DatabaseQueue

    init(path: String) throws {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = ON; PRAGMA synchronous = FULL")
        }
        queue = try DatabaseQueue(path: path, configuration: configuration)
    }

    func transaction(_ sql: String, _ rows: [[DatabaseValue]]) async throws {
        try await queue.write { db in
            let statement = try db.cachedStatement(sql: sql)
            for row in rows { try statement.execute(arguments: StatementArguments(row)) }
        }
    }

    func transaction(_ statements: [(sql: String, arguments: [DatabaseValue])]) async throws {
        try await queue.write { db in
            for (sql, arguments) in statements { try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments)) }
        }
    }

    func execute(_ sql: String, _ arguments: [DatabaseValue]) async throws {
        try await queue.write { db in try db.execute(sql: sql, arguments: StatementArguments(arguments)) }
    }

    func rows(_ sql: String, _ arguments: [DatabaseValue]) async throws -> [Row] {
        try queue.read { db in try Row.fetchAll(db, sql: sql, arguments: StatementArguments(arguments)) }
    }

    func payload(_ body: String) -> DatabaseValue { body.databaseValue }

    func version() async throws -> Int? {
        try await queue.unsafeRead { db in try Int.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) }
    }

    func close() throws {
        try queue.close()
    }
}
