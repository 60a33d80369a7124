// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// One batch of settlements in one transaction: load the rows, fold, write the changes.
///
/// The fold in the core makes the decisions. This type maps them to tables.
struct SettlementTransaction {
    let db: Database
    let directory: ClientDirectory
    let rules: SettlementRules
    let now: Timestamp

    var connection: SQLiteConnection { SQLiteConnection(db) }

    /// - Returns: the result, and whether a token or an address was erased from the file. The log still holds it then.
    func settle(_ settlements: [Settlement]) throws -> (batch: SettledBatch, hasErased: Bool) {
        let apps = directory.appNames
        let scope = SettlementScope(of: settlements, apps: apps, under: rules)
        return try write(SettlementFold.fold(settlements, over: load(scope), apps: apps, under: rules, at: now))
    }
}
