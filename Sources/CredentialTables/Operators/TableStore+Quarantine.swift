// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Operators' queries on the quarantine.
extension TableStore {
    /// Up to `limit` rows, newest first. With a `reason`, only rows of it. With an `id`, only rows older than it.
    package func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification] {
        try await query { connection in
            try connection.fetchAll(
                "SELECT \(QuarantinedNotification.columns) FROM notification_quarantine \(page)",
                id ?? .max,
                reason?.rawValue,
                limit
            ).map { QuarantinedNotification($0) }
        }
    }

    package func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64] {
        try await query { connection in
            try connection.fetchAll("SELECT id FROM notification_quarantine \(page)", id ?? .max, reason?.rawValue, limit).map {
                $0.integer(at: 0)
            }
        }
    }

    package func quarantined(_ id: Int64) async throws -> QuarantinedNotification? {
        try await query { connection in
            try connection.fetchOne("SELECT \(QuarantinedNotification.columns) FROM notification_quarantine WHERE id = $1", id)
                .map { QuarantinedNotification($0) }
        }
    }

    package func quarantineCounts() async throws -> [String: Int] {
        try await query { try $0.quarantineCounts() }
    }
}

/// SQL. The parameters are the id, the reason and the limit.
private let page = "WHERE id < $1 AND ($2 IS NULL OR reason = $2) ORDER BY id DESC LIMIT $3"
