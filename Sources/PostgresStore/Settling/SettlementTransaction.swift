// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// One batch of settlements in one transaction: load the rows, fold, write the changes.
///
/// The fold in the core makes the decisions. This type maps them to tables. It takes two round trips, however large the batch is: one locks
/// and loads, one writes and commits.
struct SettlementTransaction {
    let connection: Connection
    let directory: ClientDirectory
    let rules: SettlementRules
    let batch: BatchNumber
    let now: Timestamp

    /// - Returns: a closure that gives the result after the commit.
    func send(_ settlements: [Settlement]) throws -> () throws -> SettledBatch {
        let apps = directory.appNames
        let scope = SettlementScope(of: settlements, apps: apps, under: rules)
        try connection.send("BEGIN ISOLATION LEVEL READ COMMITTED")
        // Write the number first. Its reader then waits until this transaction has ended, wherever it is. The row is this process's own.
        try batch.sendWrite(on: connection, at: now)
        let changes = SettlementFold.fold(settlements, over: try load(scope), apps: apps, under: rules, at: now)
        return try write(changes)
    }
}
