// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

extension SQLiteStore {
    /// Inserts a row into each queue as a backend does, and takes all of them back.
    ///
    /// - Throws: `StoreError` if a backend of this user could not insert.
    package static func tryInserts(at path: String) throws {
        // GRDB would make a file that is not there.
        guard access(path, F_OK) == 0 else {
            throw StoreError.unavailable("\(path) cannot be reached: \(String(cString: strerror(errno)))")
        }
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(InsertProbe.patience / .seconds(1))
        configuration.prepareDatabase { db in try db.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        try translatingErrors {
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.writeWithoutTransaction { db in
                try db.inTransaction(.immediate) {
                    try db.execute(
                        sql: """
                            INSERT INTO notification_queue (payload) VALUES ('{}');
                            INSERT INTO grant_queue (client_id, user_id) VALUES ('siwatch.init', 'siwatch.init');
                            INSERT INTO revocation_queue (client_id, user_id) VALUES ('siwatch.init', 'siwatch.init');
                            """
                    )
                    return .rollback
                }
            }
            try queue.close()
        }
    }
}
