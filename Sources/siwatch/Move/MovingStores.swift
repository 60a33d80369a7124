// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import PostgresStore
import SQLiteStore

extension Move {
    /// Opens the file first, because its lock tells whether a siwatch is at work on it.
    func withStores(
        _ source: DatabaseLocation,
        _ destination: DatabaseLocation,
        _ body: (any TableContents, any TableContents) async throws -> Void
    ) async throws {
        switch (source, destination) {
        case (.file(let file), .server(let address)):
            let file = try MovingFile(departing: file)
            defer { file.lock.release() }
            try await body(file.contents, PostgresContents.arriving(address))
            try await file.contents.close()
        case (.server(let address), .file(let file)):
            let file = try MovingFile(arriving: file)
            defer { file.lock.release() }
            try await body(PostgresContents.departing(address), file.contents)
            try await file.contents.close()
        case (.file, .file), (.server, .server):
            throw CommandFailure.wrongUsage("a file moves to PostgreSQL, or back; \(source.name) does not move to \(destination.name)")
        }
    }
}

/// A database file that moves, under its lock.
struct MovingFile {
    let contents: SQLiteContents
    let lock: DatabaseLock

    init(departing file: DatabaseFile) throws {
        try self.init(file) {
            do {
                guard try file.inspect() != .none else { throw MoveRefusal.nothing(place: file.path) }
            } catch DatabaseFile.Unusable.departed(_, let departure) where !departure.isComplete {
                // An earlier move was cut short. Whether it arrived is checked later. Nothing has worked on the file since.
                return
            }
            let store = try SQLiteStore.open(file)
            defer { try? store.close() }
            // Makes rows due that the last process had claimed.
            try store.recover()
        }
    }

    init(arriving file: DatabaseFile) throws {
        let obstacles = file.obstacles
        guard obstacles.isEmpty else { throw CommandFailure.unusable(obstacles) }
        try self.init(file) {
            do {
                try SQLiteStore.open(file).close()
            } catch let error as DatabaseFile.Unusable {
                guard case .departed = error else { throw error }
                throw CommandFailure.unusable(["\(error)".printable, "Move the file away, and this command makes a new one in its place"])
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
    static func departing(_ address: PostgresAddress) throws -> PostgresContents {
        let contents = try PostgresContents(address)
        if let departure = contents.departure, !departure.isComplete { return contents }
        guard contents.isThere else { throw MoveRefusal.nothing(place: contents.place) }
        // Updates the schema, or throws with the place to which the data has moved.
        _ = try PostgresStore.open(address)
        return contents
    }

    static func arriving(_ address: PostgresAddress) throws -> PostgresContents {
        _ = try PostgresStore.open(address)
        return try PostgresContents(address)
    }
}
