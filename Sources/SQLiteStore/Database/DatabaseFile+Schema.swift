// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB
import GRDBSQLite

extension DatabaseFile {
    /// The version that SQLite reads, also from a log that is newer than the file. Checks that the tables are there. If there is no log and
    /// no daemon, the connection leaves no trace, not even a `-wal` or `-shm` file.
    func schemaVersion(isInUse: Bool) throws(Unusable) -> Int {
        let connection = try reader(isImmutable: !isInUse && !hasLog)
        defer { sqlite3_close_v2(connection) }
        let version = try rows(of: "PRAGMA user_version", on: connection).first.flatMap { Int($0[0]) } ?? 0
        let tables = try rows(of: "SELECT name FROM sqlite_schema", on: connection).map { $0[0] }
        let missing = ["notification_queue", "grant_queue", "credential", "user_event"].first { !tables.contains($0) }
        if version > 0, let missing { throw .damaged("\(path) lacks the table \(missing)") }
        if tables.contains("departure"), let departure = try departure(on: connection) { throw .departed(path: path, departure) }
        if version > 0, version <= steps.newest { try refuseForeignSchema(version: version, on: connection) }
        return version
    }

    private func departure(on connection: OpaquePointer?) throws(Unusable) -> Departure? {
        try rows(of: "SELECT \(Departure.columns) FROM departure", on: connection).first.map { row in
            Departure(id: row[0], destination: row[1], at: Timestamp(milliseconds: Int64(row[2]) ?? 0), isComplete: row[3] == "1")
        }
    }

    /// - Throws: `foreign`, with what siwatch has not made, and what it made and is missing or changed.
    func refuseForeignSchema(version: Int, on connection: OpaquePointer?) throws(Unusable) {
        let found = StoredSchema(try rows(of: StoredSchema.query, on: connection))
        try refuseForeignMigrations(upTo: version, on: connection)
        let difference: String?
        do {
            difference = try found.difference(from: StoredSchema(madeBy: steps.filter { $0.version <= version }))
        } catch {
            throw .unreadable("\(path) cannot be compared with a new database: \(error)")
        }
        guard let difference else { return }
        throw .foreign(
            "\(path) is not as siwatch made it: \(difference). Find out who did that, drop what is not siwatch's, or restore a backup"
        )
    }
}

extension DatabaseFile {
    /// A step that somebody has noted ahead of its time would be left out by the release that brings it.
    private func refuseForeignMigrations(upTo version: Int, on connection: OpaquePointer?) throws(Unusable) {
        let found = Set(try rows(of: "SELECT identifier FROM grdb_migrations", on: connection).map { $0[0] })
        guard found != Set(steps.filter { $0.version <= version }.map { "v\($0.version)" }) else { return }
        throw .foreign("\(path) is not as siwatch made it: its list of migrations was changed. Restore a backup")
    }
}

extension SQLiteStore {
    package func schemaDifference() async throws -> String? {
        let made = try StoredSchema(madeBy: FileSchema.steps)
        return try await query { connection in
            let rows = try connection.fetchAll("\(sql: StoredSchema.query)").map { row in (0...2).map { row.text(at: $0) ?? "" } }
            return StoredSchema(rows).difference(from: made)
        }
    }
}

/// The text of all tables, views, indexes and triggers of a file. Each member of the group can write the whole file, and so plant a trigger
/// that copies tokens.
private struct StoredSchema: Equatable {
    private struct Name: Hashable, Comparable {
        var type: String
        var name: String

        /// For a message. A name may hold anything.
        var words: String {
            let plain = name.unicodeScalars.prefix(64).map { $0.isASCII && $0.value > 0x20 && $0.value < 0x7f ? Character($0) : "?" }
            return "\(type) \(String(plain))"
        }

        static func < (one: Name, other: Name) -> Bool { (one.type, one.name) < (other.type, other.name) }
    }

    static let query = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema"
    /// SQLite's own, of `AUTOINCREMENT` and of `ANALYZE`, and GRDB's. Another release may write their text in another way.
    private static let ownTables: Set = ["sqlite_sequence", "sqlite_stat1", "sqlite_stat4", "grdb_migrations"]

    /// A file has it after a move to it.
    private static let arrival = Name(type: "table", name: "arrival")

    private var texts: [Name: String] = [:]

    init(_ rows: [[String]]) {
        // An index of a constraint has no text.
        for row in rows where !(row[0] == "table" && Self.ownTables.contains(row[1])) && !row[2].isEmpty {
            texts[Name(type: row[0], name: row[1])] = row[2]
        }
    }

    init(madeBy steps: [SchemaStep]) throws {
        let fresh = try DatabaseQueue()
        try DatabaseFile(path: ":memory:", steps: steps).migrate(fresh)
        try fresh.write { db in try db.execute(sql: FileSchema.tables.arrival) }
        self.init(try fresh.read { db in try Row.fetchAll(db, sql: Self.query).map { [$0[0], $0[1], $0[2]] } })
    }

    func difference(from made: StoredSchema) -> String? {
        let foreign = texts.keys.filter { made.texts[$0] == nil }.sorted().map { "\($0.words) is not siwatch's" }
        let missing = made.texts.keys.filter { texts[$0] == nil && $0 != Self.arrival }.sorted().map { "\($0.words) is missing" }
        let changed = texts.keys.filter { made.texts[$0] != nil && made.texts[$0] != texts[$0] }.sorted().map { "\($0.words) was changed" }
        let all = foreign + missing + changed
        guard !all.isEmpty else { return nil }
        return all.prefix(5).joined(separator: "; ") + (all.count > 5 ? "; and \(all.count - 5) more" : "")
    }
}

enum FileSchema {
    /// "SIWA": tells siwatch's files from every other SQLite database.
    static let applicationID: Int32 = 0x5349_5741

    static let tables = Tables(.sqlite)
    static let steps = tables.steps(tables.definitions + tables.views)
}
