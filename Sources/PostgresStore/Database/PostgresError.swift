// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialCore

/// What the server or the road to it said.
///
/// Of the server's words the code, the names of what is declared, and the message where it is of a kind that quotes no row. Its DETAIL
/// quotes rows.
struct PostgresError: Error, CustomStringConvertible {
    /// Five characters of the SQL standard's; empty where the connection was lost.
    var sqlState: String
    /// What is broken, by its name in the schema.
    var constraint: String?
    /// In words.
    var reason: String?
    /// Whether the connection is not to be used again, whatever the code says.
    private var isLast = false

    /// Classes of codes whose messages speak of declarations, locks, rights, room and the server itself.
    private static let classesThatQuoteNoRow: Set<Substring> = [
        "0A", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "XX",
    ]

    init(connection reason: String) {
        sqlState = ""
        self.reason = reason
    }

    /// - Parameters:
    ///   - result: of a statement that failed.
    ///   - endsConnection: where what follows it cannot be told from its end.
    init(_ result: OpaquePointer?, endsConnection: Bool = false) {
        isLast = endsConnection
        func field(_ code: Character) -> String? { PQresultErrorField(result, Int32(code.asciiValue!)).map { String(cString: $0) } }
        sqlState = field("C") ?? ""
        constraint = field("n") ?? field("t")
        if sqlState.isEmpty { reason = "the connection was lost" }
        if Self.classesThatQuoteNoRow.contains(sqlState.prefix(2)) { reason = field("M") }
    }

    var description: String { ([sqlState, constraint ?? "", reason ?? ""]).filter { !$0.isEmpty }.joined(separator: " ") }

    /// Whether the connection was lost, and with it the answer to whatever was sent.
    var losesAnswers: Bool { isLast || sqlState.isEmpty || ["08", "57P"].contains(where: sqlState.hasPrefix) }

    /// Whether the connection is to be made anew: it was lost, cannot be written by, or the server has forgotten what was prepared on it, or
    /// a migration has outdated that.
    var endsConnection: Bool { losesAnswers || sqlState.hasPrefix("26") || ["25006", "0A000"].contains(sqlState) }
}

extension StoreError {
    /// - Parameter mayBeCommitted: whether a COMMIT was under way whose answer nobody has heard.
    init(_ error: PostgresError, mayBeCommitted: Bool = false) {
        let text = "\(error)"
        self =
            switch error.sqlState {
            case _ where mayBeCommitted && error.losesAnswers: .outcomeUnknown(text)
            // A deadlock, a conflict, a lock that took too long, a statement that was cancelled, a plan that a migration has outdated or a
            // DISCARD has taken away.
            case "40P01", "40001", "55P03", "57014", "0A000", "26000": .retry(text)
            // Read-only, or one that was idle too long in a transaction.
            case "25006", "25P03": .unavailable(text)
            // Something is not in the state that the statement needs, or in use.
            case "55000", "55006": .unavailable(text)
            // Too many transactions without a vacuum: the server writes nothing. What is too large names what it is too large for.
            case "54000" where error.constraint == nil: .unavailable(text)
            case "53100": .full
            case "42501": .readOnly(text)
            // What is raised by a trigger, too.
            case "P0001": .refused(text)
            default:
                switch error.sqlState.prefix(2) {
                // No connection; no room for one; the server shuts down; input or output failed.
                case "", "08", "53", "57", "58": .unavailable(text)
                // Something is too large for an index, among others.
                case "22", "23", "44", "54": .refused(text)
                // A table that is gone or another's, or pages that cannot be read.
                case "42", "3F", "XX": .damaged(text)
                default: .outcomeUnknown(text)
                }
            }
    }
}
