// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import PostgresStore
import SQLiteStore

/// Which database a configuration names, and how to get to it.
enum DatabaseLocation: Sendable {
    /// One process at a time works on it, which its lock sees to.
    case file(DatabaseFile)
    /// Any number of processes work on it.
    case server(PostgresAddress)

    /// As reports name it; no secret.
    var name: String {
        switch self {
        case .file(let file): file.path
        case .server(let address): address.description
        }
    }

    /// Why it could not be written, one sentence each; none where it can, or where only trying would tell.
    var obstacles: [String] {
        switch self {
        case .file(let file): file.obstacles
        case .server: []
        }
    }

    /// Whether there is one, and it is ours.
    ///
    /// - Throws: where it is not.
    func exists() throws -> Bool {
        switch self {
        case .file(let file): try file.inspect(isInUse: DatabaseLock.isHeld(database: file.path)) != .none
        case .server(let address): try PostgresStore.exists(at: address)
        }
    }

    /// Takes the right to be the only one at work on it. On a server there is no such right: rows and lanes are claimed one by one.
    func lock() throws(DatabaseLockError) -> DatabaseLock? {
        switch self {
        case .file(let file): try DatabaseLock.retrying(database: file.path)
        case .server: nil
        }
    }

    /// Opens it to work on it, and brings its schema up to date. The caller holds the lock.
    func open(retention: Retention) throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.open(file, retention: retention)
        case .server(let address): try PostgresStore.open(address, retention: retention)
        }
    }

    /// Opens it beside a daemon that may be at work, to look at it.
    func openForReading() throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.openForReading(file)
        case .server(let address): try PostgresStore.openForReading(address)
        }
    }

    /// Opens it beside a daemon that may be at work, to append to it as a backend does.
    func openBeside() throws -> any CredentialStore {
        switch self {
        case .file(let file): try SQLiteStore.openBeside(file)
        case .server(let address): try PostgresStore.openBeside(address)
        }
    }
}

extension Configuration {
    /// - Throws: where the file of its password cannot be read.
    func namedDatabase() throws(CommandFailure) -> DatabaseLocation {
        guard let url = database.url else { return .file(DatabaseFile(following: database.path)) }
        _ = try readPassword()
        // Read again for each connection: one that was changed meanwhile needs no restart.
        return .server(PostgresAddress(url, schema: database.schema) { try readPassword() })
    }

    /// The database, once it is seen to be there and ours.
    func existingDatabase() throws(CommandFailure) -> DatabaseLocation {
        let database = try namedDatabase()
        do {
            if try database.exists() { return database }
        } catch {
            throw CommandFailure(database: error)
        }
        throw .unusable(["\(database.place): \(database.name) is not there yet; siwatch migrate creates it"])
    }

    /// Opens the database beside a daemon that may be at work, to look at it.
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
    /// The key of the configuration that names it.
    var place: String {
        switch self {
        case .file: "database.path"
        case .server: "database.url"
        }
    }
}

extension CredentialStore {
    /// Ends every connection after `body`, whatever comes of it.
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
