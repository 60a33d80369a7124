// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import SQLiteStore

extension Configuration {
    /// The database, once it is seen to be there and ours.
    func existingDatabase() throws(CommandFailure) -> DatabaseFile {
        let file = DatabaseFile(path: database.path)
        do {
            if try file.inspect(isInUse: DatabaseLock.isHeld(database: file.path)) != .none { return file }
        } catch {
            throw CommandFailure(database: error)
        }
        throw .unusable(["database.path: \(file.path) is not there yet; siwatch migrate creates it"])
    }

    /// Opens the database beside a daemon that may be at work, to look at it.
    ///
    /// - Throws: `CommandFailure`, or `CancellationError`.
    func withStore<Value>(_ body: (SQLiteStore) async throws -> Value) async throws -> Value {
        do {
            let store = try SQLiteStore.openForReading(existingDatabase())
            defer { try? store.close() }
            return try await body(store)
        } catch let error where !(error is CancellationError) {
            throw CommandFailure(database: error)
        }
    }
}
