// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import GRDB

extension SQLiteStore {
    package func enqueue(notification body: [UInt8]) async throws -> Int64 {
        try await write { db in
            try db.execute(
                sql: "INSERT INTO notification_queue (payload) VALUES (CAST(? AS TEXT))",
                arguments: [Data(body)]
            )
            return db.lastInsertedRowID
        }
    }
}
