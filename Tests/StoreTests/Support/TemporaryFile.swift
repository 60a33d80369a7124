// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import GRDB

@testable import SQLiteStore

/// The path of a file that does not exist yet, alone in a folder of its own.
struct TemporaryFile: Sendable {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "siwatch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    /// A file with siwatch's tables and without rows. It is migrated once for all tests, and copied for each.
    static func migrated() throws -> TemporaryFile {
        let file = try TemporaryFile()
        try migratedBytes.get().write(to: file.url)
        guard chmod(file.path, 0o660) == 0 else { throw POSIXError(.EIO) }
        return file
    }

    private static let migratedBytes = Result {
        let file = try TemporaryFile()
        defer { file.remove() }
        try SQLiteStore.open(DatabaseFile(path: file.path)).close()
        return try Data(contentsOf: file.url)
    }

    var url: URL { folder.appending(path: "siwatch.sqlite") }
    var path: String { url.path }

    /// The folder's files, byte by byte.
    ///
    /// Closing a file drops SQLite's locks on it in this process, so no open connection may depend on them.
    func contents() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        return try Dictionary(uniqueKeysWithValues: names.map { ($0, try Data(contentsOf: folder.appending(path: $0))) })
    }

    /// Copies the present files: the state that a killed process leaves, without its locks.
    func copy() throws -> TemporaryFile {
        let copy = try TemporaryFile()
        for (name, bytes) in try contents() where !name.hasSuffix("-shm") { try bytes.write(to: copy.folder.appending(path: name)) }
        return copy
    }

    /// Changes a file that nobody else has open.
    func run(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
        try queue.close()
    }

    func remove() { try? FileManager.default.removeItem(at: folder) }
}

/// What tests of files alone ask and change.
extension StoreUnderTest {
    func pragma(_ name: String) async throws -> Int? {
        try await sqlite.writer.writeWithoutTransaction { db in try Int.fetchOne(db, sql: "PRAGMA \(name)") }
    }

    func setPragma(_ assignment: String) async throws {
        try await sqlite.writer.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA \(assignment)") }
    }

    var isIntact: Bool { get async throws { try await column("PRAGMA integrity_check") == ["ok"] } }
}

struct OpenTransaction: Sendable {
    private let connection: DatabaseQueue

    /// - Parameter kind: `.deferred` reads, and keeps its snapshot. `.immediate` keeps every other writer out.
    init(_ kind: Database.TransactionKind, at path: String) throws {
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        connection = try DatabaseQueue(path: path, configuration: configuration)
        try connection.writeWithoutTransaction { db in
            try db.beginTransaction(kind)
            _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM notification_quarantine")
        }
    }

    func end() throws { try connection.writeWithoutTransaction { db in try db.rollback() } }
}
