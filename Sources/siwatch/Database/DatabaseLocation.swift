// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import PostgresStore
import SQLiteStore

/// The database that a configuration names, and how to open it.
enum DatabaseLocation: Sendable {
    /// An SQLite file. Its lock lets only one process work on it at a time.
    case file(DatabaseFile)
    /// A PostgreSQL server. Any number of processes may work on it.
    case server(PostgresAddress)

    /// As reports name it, without a secret.
    var name: String {
        switch self {
        case .file(let file): file.path
        case .server(let address): address.description
        }
    }

    /// Why the database cannot be written, one sentence each. Empty if it can be written, or if only a try would tell.
    var obstacles: [String] {
        switch self {
        case .file(let file): file.obstacles
        case .server: []
        }
    }

    /// Whether the database exists and belongs to siwatch.
    ///
    /// - Throws: if it does not belong to siwatch, or needs a migration first.
    func exists() throws -> Bool {
        switch self {
        case .file(let file): try file.exists(isInUse: DatabaseLock.isHeld(database: file.path))
        case .server(let address): try PostgresStore.exists(at: address)
        }
    }

    /// What `open(retention:)` would do to the tables.
    ///
    /// - Throws: if the database does not belong to siwatch.
    func migrationPlan() throws -> MigrationPlan {
        switch self {
        case .file(let file): try file.migrationPlan(isInUse: DatabaseLock.isHeld(database: file.path))
        case .server(let address): try PostgresStore.migrationPlan(of: address)
        }
    }

    /// Takes the right to work alone on the database. On a server there is no such right, because rows and lanes are claimed one by one.
    func lock() throws(DatabaseLockError) -> DatabaseLock? {
        switch self {
        case .file(let file): try DatabaseLock.retrying(database: file.path)
        case .server: nil
        }
    }

    /// Opens the database to work on it, and brings its schema up to date. The caller must hold the lock.
    func open(retention: Retention) throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.open(file, retention: retention)
        case .server(let address): try PostgresStore.open(address, retention: retention)
        }
    }

    /// Opens the database for reading, beside a daemon that may be at work.
    func openForReading() throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.openForReading(file)
        case .server(let address): try PostgresStore.openForReading(address)
        }
    }

    /// Opens the database to append rows as a backend does, beside a daemon that may be at work.
    func openBeside() throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.openBeside(file)
        case .server(let address): try PostgresStore.openBeside(address)
        }
    }
}

extension Configuration {
    /// - Throws: if the password file cannot be read.
    func namedDatabase() throws(CommandFailure) -> DatabaseLocation {
        guard let url = database.url else { return .file(DatabaseFile(following: database.path)) }
        _ = try readPassword()
        // The password is read again for each connection, so that a new password needs no restart.
        return .server(PostgresAddress(url, schema: database.schema) { try readPassword() })
    }

    /// The database, after a check that it exists and belongs to siwatch.
    func existingDatabase() throws(CommandFailure) -> DatabaseLocation {
        let database = try namedDatabase()
        do {
            if try database.exists() { return database }
        } catch {
            throw CommandFailure(database: error)
        }
        throw .unusable(["\(database.place): \(database.name) is not there yet; siwatch migrate creates it"])
    }

    /// Opens the database for reading, beside a daemon that may be at work.
    ///
    /// - Throws: `CommandFailure`, or `CancellationError`.
    func withStore<Value>(_ body: (any CredentialStore) async throws -> Value) async throws -> Value {
        do {
            return try await existingDatabase().openForReading().closing(after: body)
        } catch let error where !(error is CancellationError) {
            throw CommandFailure(database: error)
        }
    }

    private func readPassword() throws(CommandFailure) -> Secret? {
        guard let path = database.passwordFile else { return nil }
        do {
            let text = try TextFile.read(path, limit: 4096, isSecret: true)
            let password = text.hasSuffix("\n") ? String(text.dropLast()) : text
            guard !password.isEmpty else { throw CommandFailure.unusable(["database.password_file: \(path) is empty"]) }
            return Secret(password)
        } catch let error as TextFileError {
            throw .unusable(["database.password_file: \(path) \(error)"])
        } catch {
            throw CommandFailure(database: error)
        }
    }
}

extension DatabaseLocation {
    /// The key of the configuration that names the database.
    var place: String {
        switch self {
        case .file: "database.path"
        case .server: "database.url"
        }
    }
}

extension CredentialStore {
    /// Closes every connection after `body`, even if `body` throws.
    func closing<Value>(after body: (any CredentialStore) async throws -> Value) async throws -> Value {
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(self))
        } catch {
            result = .failure(error)
        }
        try? await close()
        return try result.get()
    }
}
