// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// One batch of settlements inside one transaction: load what it touches, fold, write what has changed.
///
/// What follows from what is decided by the fold, in the core; here is how it stands in tables.
struct SettlementTransaction {
    let db: Database
    let directory: ClientDirectory
    let rules: SettlementRules
    let now: Timestamp

    var connection: SQLiteConnection { SQLiteConnection(db) }

    /// - Returns: what was done, and whether a token or an address was erased from the file: its log still holds it then.
    func settle(_ settlements: [Settlement]) throws -> (batch: SettledBatch, hasErased: Bool) {
        let apps = directory.appNames
        let scope = SettlementScope(of: settlements, apps: apps, under: rules)
        return try write(SettlementFold.fold(settlements, over: load(scope), apps: apps, under: rules, at: now))
    }
}
