// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CLibpq
import CredentialCore

/// An error of the server or of the connection to it. Keeps the message only if it is of a kind that quotes no row, and drops the DETAIL.
struct PostgresError: Error, CustomStringConvertible {
    /// Five characters of the SQL standard; empty if the connection was lost.
    var sqlState: String
    /// The violated constraint, by its name in the schema.
    var constraint: String?
    var reason: String?
    /// Whether siwatch must not use the connection again, whatever the code says.
    private var isLast = false

    /// Classes of codes whose messages speak of declarations, locks, rights, room and the server itself.
    private static let classesThatQuoteNoRow: Set<Substring> = [
        "0A", "25", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "XX",
    ]

    init(connection reason: String) {
        sqlState = ""
        self.reason = reason
    }

    /// - Parameter endsConnection: whether siwatch cannot tell the end of this result from the results after it.
    init(_ result: OpaquePointer?, endsConnection: Bool = false) {
        isLast = endsConnection
        func field(_ code: Character) -> String? { PQresultErrorField(result, Int32(code.asciiValue!)).map { String(cString: $0) } }
        sqlState = field("C") ?? ""
        constraint = field("n") ?? field("t")
        if sqlState.isEmpty { reason = "the connection was lost" }
        if Self.classesThatQuoteNoRow.contains(sqlState.prefix(2)) { reason = field("M") }
    }

    var description: String { ([sqlState, constraint ?? "", reason ?? ""]).filter { !$0.isEmpty }.joined(separator: " ") }

    /// Whether the connection was lost, and with it the answers to everything that was sent.
    var losesAnswers: Bool { isLast || sqlState.isEmpty || ["08", "57P"].contains(where: sqlState.hasPrefix) }

    var isLockTimeout: Bool { sqlState == "55P03" }

    /// Whether siwatch must connect anew: the connection was lost or cannot write, the server has forgotten the prepared statements, or a
    /// migration has outdated them.
    var endsConnection: Bool { losesAnswers || sqlState.hasPrefix("26") || ["25006", "0A000"].contains(sqlState) }
}

extension StoreError {
    /// - Parameter mayBeCommitted: whether a COMMIT was sent, and nobody has heard its answer.
    init(_ error: PostgresError, mayBeCommitted: Bool = false) {
        let text = "\(error)"
        self =
            switch error.sqlState {
            case _ where mayBeCommitted && error.losesAnswers: .outcomeUnknown(text)
            // A deadlock, a conflict, a lock that took too long, a cancelled statement, or a plan that a migration has outdated or a
            // DISCARD has removed.
            case "40P01", "40001", "55P03", "57014", "0A000", "26000": .retry(text)
            // A read-only server, or a transaction that was idle for too long.
            case "25006", "25P03": .unavailable(text)
            // An object is in use, or is not in the state that the statement needs.
            case "55000", "55006": .unavailable(text)
            // Too many transactions without a vacuum: the server writes nothing. An error about a value that is too large names a
            // constraint.
            case "54000" where error.constraint == nil: .unavailable(text)
            case "53100": .full("\(Self.fullDisk) the database server is full: \(text)")
            case "42501": .readOnly(text)
            // Also the code of errors that triggers raise.
            case "P0001": .refused(text)
            default:
                switch error.sqlState.prefix(2) {
                // No connection; no room for one; the server shuts down; input or output failed.
                case "", "08", "53", "57", "58": .unavailable(text)
                // Among others, a value that is too large for an index.
                case "22", "23", "44", "54": .refused(text)
                // A missing table, another owner's table, or unreadable pages.
                case "42", "3F", "XX": .damaged(text)
                default: .outcomeUnknown(text)
                }
            }
    }
}
