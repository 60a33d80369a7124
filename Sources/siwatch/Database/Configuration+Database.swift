// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import PostgresStore
import SQLiteStore

extension Configuration {
    func namedDatabase() throws(CommandFailure) -> DatabaseLocation {
        guard let url = database.url else { return .file(DatabaseFile(following: database.path)) }
        _ = try readPassword()
        // The password is read again for each connection, so that a new password needs no restart.
        return .server(PostgresAddress(url, schema: database.schema) { try readPassword() })
    }

    /// The database, after a check that it exists and belongs to siwatch.
    func existingDatabase() throws(CommandFailure) -> DatabaseLocation {
        let database = try namedDatabase()
        do { if try database.exists() { return database } } catch { throw CommandFailure(database: error) }
        // With a key there may have been a database, and an empty one in its place would hide that.
        let wasThere = FileManager.default.fileExists(atPath: encryption.keyFile)
        let advice = wasThere ? "; if it was moved or deleted, put it back or restore a backup; if it never was there," : " yet;"
        throw .unusable(["\(database.place): \(database.name) is not there\(advice) siwatch migrate creates it"])
    }

    /// Opens the database beside a daemon that may be at work, to append rows as a backend does or only to read.
    func withStore<Value>(appends: Bool = false, _ body: (any CredentialStore) async throws -> Value) async throws -> Value {
        do {
            let database = try existingDatabase()
            return try await (appends ? database.openBeside() : database.openForReading()).closing(after: body)
        } catch let error where !(error is CancellationError) {
            throw CommandFailure(database: error)
        }
    }

    /// Opens the database where no daemon is at work on its file.
    func withStoreAlone<Value>(_ body: (any CredentialStore) async throws -> Value) async throws -> Value {
        do {
            let database = try existingDatabase()
            let lock = try database.lock()
            defer { lock?.release() }
            return try await database.open(retention: retention).closing(after: body)
        } catch {
            throw CommandFailure(database: error)
        }
    }

    private func readPassword() throws(CommandFailure) -> Secret? {
        do throws(InvalidConfiguration) {
            return try read(.password, limit: 4096) { password, _ in
                if password.isEmpty { throw TextFileError.useless("is empty") }
                if password.contains(where: \.isNewline) { throw TextFileError.useless("has several lines, and a password is one") }
                return Secret(password)
            }.values.first?.first
        } catch {
            throw .unusable(error.mistakes.map { "\($0)" })
        }
    }
}
