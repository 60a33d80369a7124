// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

extension SQLiteStore {
    package func renameApp(_ old: String, to new: String) async throws {
        try await write { db in
            let known = try String.fetchAll(db, sql: "SELECT name FROM app ORDER BY name")
            guard known.contains(old) else { throw AppRenameError.unknown(old, known: known) }
            guard !known.contains(new) else { throw AppRenameError.taken(new) }
            try db.execute(sql: "UPDATE app SET name = ? WHERE name = ?", arguments: [new, old])
            for table in ["notification_log", "revocation_log", "credential_change"] {
                try db.execute(sql: "UPDATE \(table) SET app = ? WHERE app = ?", arguments: [new, old])
            }
        }
    }
}
