// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import PostgresStore
import SQLiteStore

/// The database that a configuration names, and how to open it.
enum DatabaseLocation: Sendable {
    /// An SQLite file. Its lock lets only one process work on it at a time.
    case file(DatabaseFile)
    /// A PostgreSQL server. Any number of processes may work on it.
    case server(PostgresAddress)

    var file: DatabaseFile? {
        if case .file(let file) = self { file } else { nil }
    }

    /// As reports name it, without a secret.
    var name: String { either(\.path, \.description) }

    private func either<Value>(_ file: (DatabaseFile) throws -> Value, _ server: (PostgresAddress) throws -> Value) rethrows -> Value {
        switch self {
        case .file(let place): try file(place)
        case .server(let address): try server(address)
        }
    }

    /// - Throws: if it does not belong to siwatch, or needs a migration first.
    func exists() throws -> Bool { try either({ try $0.exists(isInUse: isLocked) }, PostgresStore.exists) }

    /// What `open(retention:)` would do to the tables.
    func migrationPlan() throws -> MigrationPlan {
        try either({ try $0.migrationPlan(isInUse: isLocked) }, PostgresStore.migrationPlan)
    }

    var migrationNote: String {
        switch self {
        case .file: "-- To read, not to run: siwatch migrate also marks the file as its own."
        case .server: "-- All steps are one transaction (psql -1). The user of database.url runs it, and owns the tables."
        }
    }

    /// Whether the database holds sealed data. Then a lost key file must not be replaced by a new one.
    func hasSealedRows() throws -> Bool {
        try migrationPlan().found != nil && either(SQLiteStore.hasSealedRows, PostgresStore.hasSealedRows)
    }

    /// Takes the right to work alone on the database. On a server there is no such right, because rows and lanes are claimed one by one.
    func lock() throws(DatabaseLockError) -> DatabaseLock? {
        guard let file else { return nil }
        return try DatabaseLock.retrying(database: file.path)
    }

    /// Opens the database to work on it, and brings its schema up to date. The caller holds the lock.
    func open(retention: Retention) throws -> any CredentialStore {
        try either({ try SQLiteStore.open($0, retention: retention) }, { try PostgresStore.open($0, retention: retention) })
    }

    /// Opens the database for reading, beside a daemon that may be at work.
    func openForReading() throws -> any CredentialStore {
        try either({ try SQLiteStore.openForReading($0, isInUse: isLocked) }, { try PostgresStore.openForReading($0) })
    }

    /// Opens the database to append rows as a backend does, beside a daemon that may be at work.
    func openBeside() throws -> any CredentialStore {
        try either({ try SQLiteStore.openBeside($0) }, { try PostgresStore.openBeside($0) })
    }

    /// Opens a server over connections of their own for what comes in over HTTP, so that it waits for no settlement. Nil for a file,
    /// which has one writer at a time in any case.
    func openForDoor() throws -> (any CredentialStore)? {
        switch self {
        case .file: nil
        // The patience is less than clients wait for the door, five seconds by default. A request may come just after another, so half of
        // it for a lock lets the door say who holds the lock.
        case .server(let address): try PostgresStore.openBeside(address, longestLockWait: .seconds(2), patience: .seconds(4))
        }
    }

    /// The key of the configuration that names the database.
    var place: String { file == nil ? "database.url" : "database.path" }

    func program(of store: any CredentialStore) async throws -> String {
        "\(file == nil ? "PostgreSQL" : "SQLite") \(try await store.version)"
    }

    static var libraries: String { "SQLite \(SQLiteLibrary.version), libpq \(PostgresLibrary.version ?? "none")" }

    // MARK: The command line

    /// Whether a text is the address of a server: a URL, or text that begins with a keyword of libpq's, as in `host=…`. Otherwise it is a
    /// file.
    static func isAddress(_ text: String) -> Bool {
        ["postgresql://", "postgres://"].contains(where: text.hasPrefix) || text.prefixMatch(of: /[a-z_]+=/) != nil
    }

    init(_ text: String, schema: String) {
        self =
            Self.isAddress(text)
            ? .server(PostgresAddress(text, schema: schema)) : .file(DatabaseFile(following: URL(filePath: text).standardizedFileURL.path))
    }

    var isUnderstood: Bool {
        if case .server(let address) = self { address.isUnderstood } else { true }
    }
}

extension CredentialStore {
    /// Closes every connection after `body`, even if `body` throws.
    func closing<Value>(after body: (any CredentialStore) async throws -> Value) async throws -> Value {
        let result: Result<Value, any Error>
        do { result = .success(try await body(self)) } catch { result = .failure(error) }
        try? await close()
        return try result.get()
    }
}
