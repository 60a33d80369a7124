// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package enum StoreError: Error, Sendable, CustomStringConvertible {
    /// Another connection holds the lock. Try again later.
    case busy
    /// A conflict that ends by itself: a deadlock, a lock that took too long, a cancelled statement. Nothing was written. Try again.
    case retry(String)
    /// The database cannot be reached, or cannot be written now. It heals itself when the server is back. Nothing was written.
    case unavailable(String)
    /// No space is left, with the words that say where. It heals itself when space returns.
    case full(String = "the disk of the database is full")
    /// The batch breaks a rule of the schema. Repeating it does not help.
    case refused(String)
    /// The stored data differs from what was written.
    case damaged(String)
    case readOnly(String)
    /// Reading or writing failed, and it is unknown whether the commit happened.
    case outcomeUnknown(String)

    /// Whether retrying, however often, is the only remedy. A new process would find the database in the same state.
    package var endsByItself: Bool {
        switch self {
        case .retry, .unavailable, .full: true
        case .busy, .refused, .damaged, .readOnly, .outcomeUnknown: false
        }
    }

    /// How the description of `unavailable` begins.
    package static let absence = "the database cannot be reached"
    /// How the description of `full` begins.
    package static let fullDisk = "the disk of"

    package var description: String {
        switch self {
        case .busy: "the database is locked by another program"
        case .retry(let reason): "the database is busy: \(reason)"
        case .unavailable(let reason): "\(Self.absence): \(reason)"
        case .full(let reason): reason
        case .refused(let reason): "the database refuses a row: \(reason)"
        case .damaged(let reason): "the database is damaged: \(reason)"
        case .readOnly(let reason): "the database cannot be written: \(reason)"
        case .outcomeUnknown(let reason):
            "the database cannot be read or written, and whether anything was done is not known: \(reason)"
        }
    }
}

/// Why a database cannot be used, as a sentence for the operator.
package struct StoreOpenError: Error, Sendable, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
