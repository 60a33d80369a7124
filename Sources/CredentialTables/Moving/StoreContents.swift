// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The contents of a store while they move, in one transaction beside which nobody writes.
package protocol StoreContents: Actor {
    /// Where the store is, in words for people. Without a password.
    nonisolated var place: String { get }

    /// Begins the transaction, once everybody else's has ended, and keeps others from writing until it ends.
    ///
    /// - Throws: `MoveRefusal` where a siwatch is at work on it, or `StoreError`.
    func begin() throws
    /// Ends it without a trace.
    func rollBack() throws

    // MARK: Reading

    func count(of table: StoredTable) throws -> Int
    /// Of a table that remembers it: the greatest id that it ever gave, 0 where it gave none.
    func greatestID(of table: StoredTable) throws -> Int64
    /// Begins to read a table from its first row.
    func beginReading(_ table: StoredTable) throws
    /// - Returns: the next portion; nil after the last.
    func read() throws -> StoredRows?
}

/// A store that is left.
package protocol DepartingStore: StoreContents {
    /// Where its contents have gone, or may have; nil where they are here.
    nonisolated var departure: Departure? { get }

    /// Writes the departure down, refuses every later write, and commits: from now on nothing starts on this store.
    func depart(_ departure: Departure) throws
    /// Writes down that what has left has arrived.
    func confirmDeparture() throws
    /// Takes back what `depart` has done: nothing has arrived.
    func withdrawDeparture() throws
}

/// A store that is moved to.
package protocol ArrivingStore: StoreContents {
    /// Whether the contents of that departure are here, outside of the transaction. Whoever may still be committing them is waited for.
    func hasArrived(_ id: String) throws -> Bool
    /// Makes room.
    ///
    /// - Throws: `MoveRefusal.notEmpty`
    func clear() throws
    func beginWriting(_ table: StoredTable) throws
    /// Rows of that table, in the order of its key.
    func write(_ rows: StoredRows) throws
    func endWriting() throws
    /// Adds what this store needs beside the contents.
    ///
    /// - Parameter greatestIDs: the greatest that each table ever gave, where it remembers that.
    func complete(greatestIDs: [String: Int64]) throws
    /// Writes the arrival down, and commits.
    func arrive(_ id: String, from place: String, at time: Timestamp) throws
}

/// That the contents of a store have gone to another, or are about to be there.
///
/// It is written down, and nothing starts on the store any more, before the other commits. So there is no moment, whoever dies, in which
/// two could be at work on the same users.
package struct Departure: Sendable, Equatable {
    /// Random. It stands in the other store, too, once the contents are there.
    package var id: String
    /// Where to: that store's `place`.
    package var destination: String
    package var at: Timestamp
    /// Whether they are known to have arrived.
    package var isComplete: Bool

    package init(id: String, destination: String, at: Timestamp, isComplete: Bool = false) {
        self.id = id
        self.destination = destination
        self.at = at
        self.isComplete = isComplete
    }

    /// - Parameter time: `at`, as people read it.
    package func sentence(of place: String, at time: String) -> String {
        isComplete
            ? "\(place) was moved to \(destination) at \(time); nothing works on it any more"
            : """
            \(place) is on the way to \(destination), since \(time), and nothing works on it until siwatch move with the same --from and --to \
            has seen whether it arrived
            """
    }

    /// What backends are told who still insert.
    package var refusal: String { "siwatch has moved to \(destination): nothing is taken here any more" }
}

/// Why a store cannot be moved, or not moved to.
package enum MoveRefusal: Error, Sendable, Equatable {
    /// These tables of the destination hold rows.
    case notEmpty(place: String, tables: [String])
    /// There is nothing to be moved.
    case nothing(place: String)
    /// It is on the way to another destination already.
    case elsewhere(String, Departure)
    /// A siwatch is at work there.
    case inUse(place: String)
    /// A queue holds what PostgreSQL could not keep as it is: text that is not UTF-8 or has a NUL, or a number that is too great.
    case unreadable(table: String, column: String, id: Int64)
}
