// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package enum StoreError: Error, Sendable {
    /// Another connection holds the lock; later.
    case busy
    /// A conflict with others that ends by itself: a deadlock, a lock that took too long, a statement that was cancelled. Nothing was
    /// written; again, and it says nothing against the rows.
    case retry(String)
    /// The database cannot be reached, or not be written for now. It heals itself when the server is back; nothing was written.
    case unavailable(String)
    /// No space is left. It heals itself when space returns.
    case full
    /// This batch breaks a rule of the schema: repeating it cannot help.
    case refused(String)
    /// What is stored is not what was written.
    case damaged(String)
    /// This process may not write there.
    case readOnly(String)
    /// Reading or writing failed, and whether the commit happened is not known.
    case outcomeUnknown(String)

    /// Whether to try again is all that there is to do, however often: a new process would find the database as it is.
    package var endsByItself: Bool {
        switch self {
        case .retry, .unavailable, .full: true
        case .busy, .refused, .damaged, .readOnly, .outcomeUnknown: false
        }
    }
}
