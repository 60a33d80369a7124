// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB

/// What operators ask of the quarantine.
extension SQLiteStore {
    /// Up to `limit` rows, newest first, of one reason where it is named, and older than the row `id` where that is.
    package func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification] {
        try await read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT \(QuarantinedNotification.columns) FROM notification_quarantine
                     WHERE id < ? \(reason == nil ? "" : "AND reason = ?")
                     ORDER BY id DESC LIMIT ?
                    """,
                arguments: [id ?? .max] + (reason.map { [$0.rawValue] } ?? []) + [limit]
            ).map(QuarantinedNotification.init)
        }
    }

    package func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64] {
        try await read { db in
            try Int64.fetchAll(
                db,
                sql: """
                    SELECT id FROM notification_quarantine
                     WHERE id < ? \(reason == nil ? "" : "AND reason = ?")
                     ORDER BY id DESC LIMIT ?
                    """,
                arguments: [id ?? .max] + (reason.map { [$0.rawValue] } ?? []) + [limit]
            )
        }
    }

    package func quarantined(_ id: Int64) async throws -> QuarantinedNotification? {
        try await read { db in
            try Row.fetchOne(
                db,
                sql: "SELECT \(QuarantinedNotification.columns) FROM notification_quarantine WHERE id = ?",
                arguments: [id]
            ).map(QuarantinedNotification.init)
        }
    }

    /// What is in quarantine, by reason. It reads the whole quarantine, so it is for people and not for scrapes.
    package func quarantineCounts() async throws -> [String: Int] {
        try await read { db in
            let rows = try Row.fetchAll(db, sql: "SELECT reason, COUNT(*) FROM notification_quarantine GROUP BY reason")
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0] as String, $0[1] as Int) })
        }
    }
}

extension QuarantinedNotification {
    fileprivate static let columns = "id, received_at, rejected_at, reason, detail, CAST(payload AS BLOB)"

    fileprivate init(_ row: Row) {
        self.init(
            id: row[0],
            receivedAt: Timestamp(milliseconds: row[1]),
            rejectedAt: Timestamp(milliseconds: row[2]),
            reason: row[3],
            detail: row[4],
            payload: row.bytes(at: 5)
        )
    }
}
