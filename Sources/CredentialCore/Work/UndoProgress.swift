// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the undo of an import has come: which batches are left, and what became of the others.
package struct UndoProgress: Sendable {
    /// The batches that are left in this round, in their order.
    private var left: ArraySlice<ImportUndo> = []
    /// The batches of this round with a row that the daemon is settling.
    private var waiting: [ImportUndo] = []
    private var searched: Set<Int64> = []
    /// The last result of each batch.
    private var results: [Int64: ImportUndo.Result] = [:]
    /// The greatest id that was left in `grant_log` when this undo last erased rows there. SQLite gives the greater ids to new rows.
    private var newestGrant = Int64.max
    /// How many rows undos have erased from `grant_log`, as far as this undo knows; nil before the first search.
    private var erased: Int64?
    /// Credentials that are gone.
    package private(set) var removed = 0
    /// Waiting rows that are gone from `grant_queue`.
    package private(set) var taken = 0

    package init() {}

    /// Credentials that stay, by `KeptImport`.
    package var kept: [String: Int] {
        results.values.reduce(into: [:]) { kept, result in kept.merge(result.kept) { $0 + $1 } }
    }

    /// Credentials with a row that the daemon is settling.
    package var claimed: Int { results.values.reduce(0) { $0 + $1.claimed } }

    package var hasSearched: Bool { !searched.isEmpty }

    /// How many batches are left in this round.
    package var count: Int { left.count }

    /// The batches that have rows and that no search has covered.
    package func unsearched(_ batches: [ToldImport]) -> [ToldImport] {
        batches.filter { !$0.ledger.rows.isEmpty && !searched.contains($0.batch) }
    }

    /// Adds the batches of one search.
    package mutating func add(_ undos: [ImportUndo]) {
        // If another undo has erased rows since the first search, the store must say so of the next batch.
        erased = erased ?? undos.first?.erasedBefore
        searched.formUnion(undos.map(\.batch))
        left.append(contentsOf: undos)
    }

    /// The next batch of this round; nil at its end.
    package var next: ImportUndo? {
        guard var undo = left.first else { return nil }
        // New rows may have the ids of rows that this undo has erased. So the search counts only up to the rows that were left then.
        let log = UserLog.grants.rawValue
        undo.searchedUpTo[log] = min(undo.searchedUpTo[log] ?? 0, newestGrant)
        undo.erasedBefore = erased ?? 0
        return undo
    }

    /// Takes in what became of the next batch.
    ///
    /// - Returns: false if another undo has erased rows since the search. Then nothing was done, and only a new undo can go on.
    package mutating func take(_ result: ImportUndo.Result) -> Bool {
        guard !result.isOutdated, let undo = left.popFirst() else { return false }
        erased = result.erased
        newestGrant = min(newestGrant, result.newestGrant ?? newestGrant)
        removed += result.removed
        taken += result.taken
        results[undo.batch] = result
        if result.claimed > 0 { waiting.append(undo) }
        return true
    }

    /// Begins another round, with the batches that had a claimed row.
    ///
    /// They need no new search. Each transaction finds the rows of its own batch, and rows that are newer than the search.
    package mutating func beginAgain() {
        left.append(contentsOf: waiting)
        waiting = []
    }
}
