// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

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

extension Departure {
    /// - Parameter row: `id, destination, at, is_complete`.
    package init(_ row: some TableRow) {
        self.init(
            id: row.text(at: 0) ?? "",
            destination: row.text(at: 1) ?? "",
            at: Timestamp(milliseconds: row.integer(at: 2)),
            isComplete: row.bool(at: 3)
        )
    }
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
