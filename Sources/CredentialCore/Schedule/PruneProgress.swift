// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far one table has been searched for old rows, and which rows stayed.
package struct PruneProgress: Sendable {
    package struct Portion: Sendable {
        package var ids: ClosedRange<Int64>
        package var oldest: Timestamp
        /// The rows that stay, by their last id and oldest time; nil if none stays.
        package var left: (lastID: Int64, oldest: Timestamp)?

        package init(ids: ClosedRange<Int64>, oldest: Timestamp, left: (lastID: Int64, oldest: Timestamp)?) {
            (self.ids, self.oldest, self.left) = (ids, oldest, left)
        }
    }

    /// How many portions to search after the last one with an old row.
    private static let lookahead = 4

    /// All rows up to this id have been seen.
    package private(set) var last = Int64.min
    private var left: (lastID: Int64, oldest: Timestamp)?
    private var vain = 0

    package init() {}

    package var goesOn: Bool { vain < Self.lookahead }

    /// Starts a search after the rows that stayed, because ids above them may be given again, or at the first row if one of them has become
    /// old.
    package mutating func begin(_ cutoff: Timestamp) {
        vain = 0
        if let left, left.oldest < cutoff { self.left = nil }
        last = left?.lastID ?? .min
    }

    package mutating func passed(_ portion: Portion, cutoff: Timestamp) {
        last = portion.ids.upperBound
        vain = portion.oldest < cutoff ? 0 : vain + 1
        if let new = portion.left { left = (new.lastID, min(left?.oldest ?? new.oldest, new.oldest)) }
    }
}
