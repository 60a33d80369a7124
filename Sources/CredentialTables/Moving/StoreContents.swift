// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The contents of a store during a move, in one transaction that keeps other writers out.
package protocol StoreContents: Actor {
    /// The place of the store, in words for people, without a password.
    nonisolated var place: String { get }

    /// Begins the transaction once all others have ended, and keeps others from writing until it ends.
    ///
    /// - Throws: `MoveRefusal` if a siwatch works on the store, or `StoreError`.
    func begin() throws
    /// Ends the transaction and undoes its changes.
    func rollBack() throws

    // MARK: Reading

    func count(of table: StoredTable) throws -> Int
    /// The greatest id that a table ever gave, for a table that remembers it; 0 if it gave none.
    func greatestID(of table: StoredTable) throws -> Int64
    /// Begins to read a table from its first row.
    func beginReading(_ table: StoredTable) throws
    /// - Returns: the next portion; nil after the last.
    func read() throws -> StoredRows?
}

/// The store that the contents leave.
package protocol DepartingStore: StoreContents {
    /// Where the contents have gone, or may have gone; nil if they are here.
    nonisolated var departure: Departure? { get }

    /// Writes the departure down, refuses every later write, and commits. From then on nothing starts on this store.
    func depart(_ departure: Departure) throws
    /// Writes down that the contents have arrived.
    func confirmDeparture() throws
    /// Undoes `depart`, because nothing has arrived.
    func withdrawDeparture() throws
}

/// The store that the contents move to.
package protocol ArrivingStore: StoreContents {
    /// Whether the contents of that departure are here. Reads outside of the transaction, and waits for a process that may still commit
    /// them.
    func hasArrived(_ id: String) throws -> Bool
    /// Removes the rows of settings to make room.
    ///
    /// - Throws: `MoveRefusal.notEmpty`
    func clear() throws
    func beginWriting(_ table: StoredTable) throws
    /// Writes rows of that table, in the order of its key.
    func write(_ rows: StoredRows) throws
    func endWriting() throws
    /// Adds what this store needs besides the contents.
    ///
    /// - Parameter greatestIDs: the greatest id that each table ever gave, for tables that remember it.
    func complete(greatestIDs: [String: Int64]) throws
    /// Writes the arrival down and commits.
    func arrive(_ id: String, from place: String, at time: Timestamp) throws
}

/// The note that the contents of a store have moved to another store, or are on the way.
///
/// It is written, and nothing starts on this store any more, before the other store commits. So even after a crash, two siwatch never work
/// on the same users.
package struct Departure: Sendable, Equatable {
    /// A random id. The other store holds it too, once the contents are there.
    package var id: String
    /// The `place` of the other store.
    package var destination: String
    package var at: Timestamp
    /// Whether the contents are known to have arrived.
    package var isComplete: Bool

    package init(id: String, destination: String, at: Timestamp, isComplete: Bool = false) {
        self.id = id
        self.destination = destination
        self.at = at
        self.isComplete = isComplete
    }

    /// - Parameter time: `at`, for people.
    package func sentence(of place: String, at time: String) -> String {
        isComplete
            ? "\(place) was moved to \(destination) at \(time); nothing works on it any more"
            : """
            \(place) is on the way to \(destination), since \(time), and nothing works on it until siwatch move with the same --from and --to \
            has seen whether it arrived
            """
    }

    /// The refusal for backends that still insert.
    package var refusal: String { "siwatch has moved to \(destination): nothing is taken here any more" }
}

/// Why a store cannot be moved, or not moved to.
package enum MoveRefusal: Error, Sendable, Equatable {
    /// These tables of the destination hold rows.
    case notEmpty(place: String, tables: [String])
    /// The store has nothing to move.
    case nothing(place: String)
    /// The store is already on the way to another destination.
    case elsewhere(String, Departure)
    /// A siwatch works on the store.
    case inUse(place: String)
    /// A queue holds a value that PostgreSQL could not keep: text that is not UTF-8 or has a NUL, or a number that is too great.
    case unreadable(table: String, column: String, id: Int64)
}
