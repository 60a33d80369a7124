// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// One batch of settlements in one transaction: load the rows, fold, write the changes.
///
/// The fold in the core makes the decisions. This type maps them to tables. On a server it takes two round trips, however large the batch
/// is: one locks and loads, one writes and commits.
package struct SettlementTransaction<Connection: TableConnection> {
    let connection: Connection
    let directory: ClientDirectory
    let rules: SettlementRules
    let now: Timestamp

    package init(on connection: Connection, directory: ClientDirectory, rules: SettlementRules, at now: Timestamp) {
        self.connection = connection
        self.directory = directory
        self.rules = rules
        self.now = now
    }

    /// - Returns: a closure that gives the result after the commit, and whether a token, an address or a forgotten user's message was
    ///   erased. The log of a file still holds it then.
    package func send(_ settlements: [Settlement]) throws -> (result: () throws -> SettlementChanges, hasErased: Bool) {
        let apps = directory.appNames
        let scope = SettlementScope(of: settlements, apps: apps, under: rules)
        return try write(SettlementFold.fold(settlements, over: load(scope), apps: apps, under: rules, at: now))
    }
}
