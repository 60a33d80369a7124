// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// What operators ask of the quarantine.
extension PostgresStore {
    /// Up to `limit` rows, newest first, of one reason where it is named, and older than the row `id` where that is.
    package func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification] {
        try await reader.run { connection in
            try connection.rows(
                "SELECT \(QuarantinedNotification.columns) FROM notification_quarantine \(Self.page)",
                id ?? .max,
                reason?.rawValue,
                limit
            ).map { QuarantinedNotification($0) }
        }
    }

    package func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64] {
        try await reader.run { connection in
            try connection.rows("SELECT id FROM notification_quarantine \(Self.page)", id ?? .max, reason?.rawValue, limit).map {
                $0.integer(at: 0)
            }
        }
    }

    package func quarantined(_ id: Int64) async throws -> QuarantinedNotification? {
        try await reader.run { connection in
            try connection.rows("SELECT \(QuarantinedNotification.columns) FROM notification_quarantine WHERE id = $1", id).first
                .map { QuarantinedNotification($0) }
        }
    }

    /// What is in quarantine, by reason. It reads the whole quarantine, so it is for people and not for scrapes.
    package func quarantineCounts() async throws -> [String: Int] {
        try await reader.run { connection in
            let rows = try connection.rows("SELECT reason, COUNT(*) FROM notification_quarantine GROUP BY reason")
            return Dictionary(uniqueKeysWithValues: rows.map { ($0.text(at: 0) ?? "", $0.int(at: 1)) })
        }
    }

    /// SQL, with the id, the reason and the limit.
    private static let page = "WHERE id < $1 AND ($2 IS NULL OR reason = $2) ORDER BY id DESC LIMIT $3"
}

extension QuarantinedNotification {
    fileprivate static let columns = "id, received_at, rejected_at, reason, detail, payload"

    fileprivate init(_ row: Row) {
        self.init(
            id: row.integer(at: 0),
            receivedAt: Timestamp(milliseconds: row.integer(at: 1)),
            rejectedAt: Timestamp(milliseconds: row.integer(at: 2)),
            reason: row.text(at: 3) ?? "",
            detail: row.text(at: 4) ?? "",
            payload: row.bytes(at: 5)
        )
    }
}
