// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB

/// Another process's open transaction.
struct OpenTransaction: Sendable {
    private let connection: DatabaseQueue

    /// - Parameter kind: `.deferred` reads, and keeps its snapshot. `.immediate` keeps every other writer out.
    init(_ kind: Database.TransactionKind, at path: String) throws {
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        connection = try DatabaseQueue(path: path, configuration: configuration)
        try connection.writeWithoutTransaction { db in
            try db.beginTransaction(kind)
            _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM notification_quarantine")
        }
    }

    func end() throws {
        try connection.writeWithoutTransaction { db in try db.rollback() }
    }
}
