// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// How far one table has been searched for rows that are old enough to go, and what was left behind.
struct PruneProgress: Sendable {
    /// Rows that stand together, by their ids and times.
    struct Portion: Sendable {
        var ids: ClosedRange<Int64>
        var oldest: Timestamp
        /// Of those that stay; nil where none does.
        var left: (lastID: Int64, oldest: Timestamp)?
    }

    /// Portions to look at after the last with anything old.
    private static let lookahead = 4

    /// Everything up to this id has been seen.
    private(set) var last = Int64.min
    /// What was seen and stayed.
    private var left: (lastID: Int64, oldest: Timestamp)?
    private var vain = 0

    var goesOn: Bool { vain < Self.lookahead }

    /// Goes on after what stayed, since ids above it may be given again; from the first row where something that stayed has become old.
    mutating func begin(_ cutoff: Timestamp) {
        vain = 0
        if let left, left.oldest < cutoff { self.left = nil }
        last = left?.lastID ?? .min
    }

    mutating func passed(_ portion: Portion, cutoff: Timestamp) {
        last = portion.ids.upperBound
        vain = portion.oldest < cutoff ? 0 : vain + 1
        if let new = portion.left { left = (new.lastID, min(left?.oldest ?? new.oldest, new.oldest)) }
    }
}

extension PruneProgress.Portion {
    /// From the least and the greatest id and the least time; then, of those that stay, the greatest id and the least time. Nil where
    /// there is no row.
    init?(_ row: Row) {
        guard let first: Int64 = row[0], let last: Int64 = row[1], let oldest: Int64 = row[2] else { return nil }
        self.init(ids: first...last, oldest: Timestamp(milliseconds: oldest))
        if let lastID: Int64 = row[3], let time: Int64 = row[4] { left = (lastID, Timestamp(milliseconds: time)) }
    }
}
