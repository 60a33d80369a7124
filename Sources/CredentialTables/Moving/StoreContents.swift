// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The contents of a store during a move, in one transaction that keeps other writers out.
package protocol StoreContents: Actor {
    /// The place of the store, for people, without a password.
    nonisolated var place: String { get }

    /// Waits for all other transactions to end, then begins one that keeps others from writing.
    ///
    /// - Throws: `MoveRefusal` if a siwatch works on the store, or `StoreError`.
    func begin() throws
    /// Ends the transaction and undoes its changes.
    func rollBack() throws

    // MARK: Reading

    func count(of table: StoredTable) throws -> Int
    /// The greatest id that a table ever gave; 0 if it gave none. For a table that remembers it.
    func greatestID(of table: StoredTable) throws -> Int64
    /// Begins to read a table from its first row.
    func beginReading(_ table: StoredTable) throws
    /// - Returns: the next portion; nil after the last.
    func read() throws -> StoredRows?
}

/// The store that the contents leave.
package protocol DepartingStore: StoreContents {
    /// Where the contents have moved or may have moved; nil if they are here.
    nonisolated var departure: Departure? { get }

    /// Records the departure, refuses every later write, and commits. From then on no siwatch starts on this store.
    func depart(_ departure: Departure) throws
    /// Records that the contents have arrived.
    func confirmDeparture() throws
    /// Undoes `depart`, because nothing has arrived.
    func withdrawDeparture() throws
}

/// The store that the contents move to.
package protocol ArrivingStore: StoreContents {
    /// Whether the contents of that departure are here. Reads outside of the transaction. Waits for a process that may still commit them.
    func hasArrived(_ id: String) throws -> Bool
    /// Deletes the rows of the tables of settings, to make room.
    ///
    /// - Throws: `MoveRefusal.notEmpty`, if another table has rows.
    func clear() throws
    func beginWriting(_ table: StoredTable) throws
    /// Writes rows of that table, in the order of its key.
    func write(_ rows: StoredRows) throws
    func endWriting() throws
    /// Adds what this store needs besides the contents.
    ///
    /// - Parameter greatestIDs: the greatest id that each table ever gave, for tables that remember it.
    func complete(greatestIDs: [String: Int64]) throws
    /// Records the arrival and commits.
    func arrive(_ id: String, from place: String, at time: Timestamp) throws
}

/// The note that the contents of a store have moved to another store, or are on the way.
///
/// The departing store commits this note before the other store commits the contents. From then on no siwatch starts on the departing
/// store. So even after a crash, two siwatch never work on the same users.
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

    /// - Parameter time: `at` as text for people.
    package func sentence(of place: String, at time: String) -> String {
        isComplete
            ? "\(place) was moved to \(destination) at \(time); nothing works on it any more"
            : """
            \(place) is on the way to \(destination), since \(time), and nothing works on it until siwatch move with the same --from and --to \
            has seen whether it arrived
            """
    }

    /// The error for backends that still insert.
    package var refusal: String { "siwatch has moved to \(destination): nothing is taken here any more" }
}

/// Why siwatch does not move a store.
package enum MoveRefusal: Error, Sendable, Equatable {
    /// These tables of the destination hold rows.
    case notEmpty(place: String, tables: [String])
    /// The store has nothing to move.
    case nothing(place: String)
    /// The store is already on the way to another destination.
    case elsewhere(String, Departure)
    /// A siwatch works on the store.
    case inUse(place: String)
    /// A queue holds a value that PostgreSQL cannot keep: text that is not UTF-8 or has a NUL, or a number that is too great.
    case unreadable(table: String, column: String, id: Int64)
}
