// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Foundation

/// The note that the contents of a store have moved to another store, or are on the way. The departing store commits it before the other
/// store commits the contents, and no siwatch starts there any more. So even after a crash, two siwatch never work on the same users.
package struct Departure: Sendable, Equatable {
    /// A random id. The other store holds it too, once the contents are there.
    package var id: String
    package var destination: String
    package var at: Timestamp
    package var isComplete: Bool

    package init(id: String, destination: String, at: Timestamp, isComplete: Bool = false) {
        self.id = id
        self.destination = destination
        self.at = at
        self.isComplete = isComplete
    }

    package func sentence(of place: String) -> String {
        let time = Date(timeIntervalSince1970: Double(at.milliseconds / 1000)).formatted(.iso8601)
        return isComplete
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
    /// SQL: the columns of `departure` for `init`.
    package static let columns = "id, destination, at, is_complete"

    package init(_ row: some TableRow) { self.init(id: row[0], destination: row[1], at: row[2], isComplete: row[3]) }
}

package enum MoveRefusal: Error, Sendable, Equatable {
    case notEmpty(place: String, tables: [String])
    case nothing(place: String)
    case elsewhere(String, Departure)
    case inUse(place: String)
    /// A queue holds a value that PostgreSQL cannot keep: text that is not UTF-8 or has a NUL, or a number that is too great.
    case unreadable(table: String, column: String, id: Int64)
}
