// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far one table has been searched for rows that are old enough to go, and what was left behind.
package struct PruneProgress: Sendable {
    /// Rows that stand together, by their ids and times.
    package struct Portion: Sendable {
        package var ids: ClosedRange<Int64>
        package var oldest: Timestamp
        /// Of those that stay; nil where none does.
        package var left: (lastID: Int64, oldest: Timestamp)?

        package init(ids: ClosedRange<Int64>, oldest: Timestamp, left: (lastID: Int64, oldest: Timestamp)?) {
            self.ids = ids
            self.oldest = oldest
            self.left = left
        }
    }

    /// Portions to look at after the last with anything old.
    private static let lookahead = 4

    /// Everything up to this id has been seen.
    package private(set) var last = Int64.min
    /// What was seen and stayed.
    private var left: (lastID: Int64, oldest: Timestamp)?
    private var vain = 0

    package init() {}

    package var goesOn: Bool { vain < Self.lookahead }

    /// Goes on after what stayed, since ids above it may be given again; from the first row where something that stayed has become old.
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
