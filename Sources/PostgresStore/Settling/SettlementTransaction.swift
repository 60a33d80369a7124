// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// One batch of settlements inside one transaction: load what it touches, fold, write what has changed.
///
/// What follows from what is decided by the fold, in the core; here is how it stands in tables. It takes two round trips, however large the
/// batch is: one that locks and loads, one that writes and commits.
struct SettlementTransaction {
    let connection: Connection
    let directory: ClientDirectory
    let rules: SettlementRules
    let batch: BatchNumber
    let now: Timestamp

    /// - Returns: what has come of it, once it is committed.
    func send(_ settlements: [Settlement]) throws -> () throws -> SettledBatch {
        let apps = directory.appNames
        let scope = SettlementScope(of: settlements, apps: apps, under: rules)
        try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
        // First: whoever asks for it waits until the transaction has ended, wherever it is. The row is this process's own.
        try batch.sendWrite(on: connection, at: now)
        let changes = SettlementFold.fold(settlements, over: try load(scope), apps: apps, under: rules, at: now)
        return try write(changes)
    }
}
