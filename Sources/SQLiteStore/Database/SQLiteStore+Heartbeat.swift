// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB

extension SQLiteStore {
    /// Writes down that siwatch lives, for those who ask the view `heartbeat`. On a server the fleet says so.
    package func beat(at now: Timestamp) async throws {
        try await write { db in try db.set("alive_at", to: now.milliseconds) }
    }
}
