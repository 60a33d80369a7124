// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import GRDB

extension SQLiteStore: CommitCounter {
    /// `PRAGMA data_version` on a connection of its own: it changes with every commit of any other connection, whatever its process,
    /// and costs microseconds.
    package func commitCount() async throws -> Int {
        guard let watch else { return 0 }
        return try await watch.unsafeRead { db in
            try Int.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
        }
    }
}
