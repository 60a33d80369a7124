// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// An import, as the store remembers it. It names no user.
package struct ToldImport: Sendable, Equatable {
    package var importID: String
    /// Its sign-ins that no undo has taken back or given up.
    package var signIns: Int
    /// When their first and their last batch were told.
    package var from: Timestamp
    package var to: Timestamp

    package init(importID: String, signIns: Int, from: Timestamp, to: Timestamp) {
        self.importID = importID
        self.signIns = signIns
        self.from = from
        self.to = to
    }
}

/// What one portion of an undo has done. A whole rehearsal is one portion.
package struct UndoneImport: Codable, Sendable, Equatable {
    /// Credentials that are gone.
    package var removed = 0
    /// Waiting sign-ins that are gone.
    package var taken = 0
    /// Sign-ins that the daemon is settling.
    package var claimed = 0
    /// All other sign-ins of the import. What they told stays.
    package var stayed = 0
    /// Whether no other portion is left, but for the claimed sign-ins.
    package var isDone = true

    package init() {}
}
