// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import PostgresStore
import SQLiteStore

/// A database file that moves, under its lock.
struct MovingFile {
    let contents: SQLiteContents
    let lock: DatabaseLock

    /// - Throws: `DatabaseFile.Unusable`, `DatabaseLockError`, or what the store throws.
    init(departing file: DatabaseFile) throws {
        try self.init(file) {
            do {
                guard try file.inspect() != .none else { throw MoveRefusal.nothing(place: file.path) }
            } catch DatabaseFile.Unusable.departed(_, let departure) where !departure.isComplete {
                // Cut short: whether it arrived is to be seen. Nothing has worked on it since.
                return
            }
            let store = try SQLiteStore.open(file)
            defer { try? store.close() }
            // What its last process had claimed is due.
            try store.recover()
        }
    }

    /// The same.
    init(arriving file: DatabaseFile) throws {
        let obstacles = file.obstacles
        guard obstacles.isEmpty else { throw CommandFailure.unusable(obstacles) }
        try self.init(file) {
            do {
                try SQLiteStore.open(file).close()
            } catch let error as DatabaseFile.Unusable {
                guard case .departed = error else { throw error }
                throw CommandFailure.unusable([
                    "\(error)".printable, "Move the file away, and this command makes a new one in its place",
                ])
            }
        }
    }

    private init(_ file: DatabaseFile, prepare: () throws -> Void) throws {
        lock = try DatabaseLock.retrying(database: file.path)
        do {
            try prepare()
            contents = try SQLiteContents(file)
        } catch {
            lock.release()
            throw error
        }
    }
}

extension PostgresContents {
    /// - Throws: `StoreOpenError`, `StoreError`.
    static func departing(_ address: PostgresAddress) throws -> PostgresContents {
        let contents = try PostgresContents(address)
        if let departure = contents.departure, !departure.isComplete { return contents }
        guard contents.isThere else { throw MoveRefusal.nothing(place: contents.place) }
        // Brings it up to date, or says where it has gone.
        _ = try PostgresStore.open(address)
        return contents
    }

    /// The same.
    static func arriving(_ address: PostgresAddress) throws -> PostgresContents {
        _ = try PostgresStore.open(address)
        return try PostgresContents(address)
    }
}
