// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Operators' queries on the quarantine.
extension TableStore {
    /// Up to `limit` rows, newest first. With a `reason`, only rows of it. With an `id`, only rows older than it.
    package func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification] {
        try await query { connection in
            try connection.fetchAll(
                "SELECT \(sql: QuarantinedNotification.columns) FROM notification_quarantine \(page(reason, before: id, upTo: limit))"
            ).map { QuarantinedNotification($0) }
        }
    }

    package func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64] {
        try await query { connection in
            try connection.fetchAll("SELECT id FROM notification_quarantine \(page(reason, before: id, upTo: limit))")
                .map { $0.integer(at: 0) }
        }
    }

    package func quarantined(_ id: Int64) async throws -> QuarantinedNotification? {
        try await query { connection in
            try connection.fetchOne("SELECT \(sql: QuarantinedNotification.columns) FROM notification_quarantine WHERE id = \(id)")
                .map { QuarantinedNotification($0) }
        }
    }

    package func quarantineCounts() async throws -> [String: Int] {
        try await query { try $0.quarantineCounts() }
    }
}

private func page(_ reason: RejectionReason?, before id: Int64?, upTo limit: Int) -> SQL {
    let isAsked: SQL = reason.map { "reason = \($0.rawValue)" } ?? "TRUE"
    return "WHERE id < \(id ?? .max) AND \(isAsked) ORDER BY id DESC LIMIT \(limit)"
}
