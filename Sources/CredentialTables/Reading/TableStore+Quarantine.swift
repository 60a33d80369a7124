// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableConnection {
    fileprivate func quarantined(_ which: SQL) throws -> [QuarantinedNotification] {
        try fetchAll("SELECT id, received_at, rejected_at, reason, detail, payload FROM notification_quarantine \(which)").map {
            QuarantinedNotification(id: $0[0], receivedAt: $0[1], rejectedAt: $0[2], reason: $0[3], detail: $0[4], payload: $0[5])
        }
    }
}

extension TableStore {
    package func quarantined(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [QuarantinedNotification] {
        try await query { try $0.quarantined(page(reason, before: id, upTo: limit)) }
    }

    package func quarantinedIDs(reason: RejectionReason?, before id: Int64?, upTo limit: Int) async throws -> [Int64] {
        try await query { connection in
            try connection.fetchAll("SELECT id FROM notification_quarantine \(page(reason, before: id, upTo: limit))").map { $0[0] }
        }
    }

    package func quarantined(_ id: Int64) async throws -> QuarantinedNotification? {
        try await query { try $0.quarantined("WHERE id = \(id)").first }
    }

    package func quarantineCounts() async throws -> [String: Int] { try await query { try $0.quarantineCounts() } }
}

private func page(_ reason: RejectionReason?, before id: Int64?, upTo limit: Int) -> SQL {
    let isAsked: SQL = reason.map { "reason = \($0.rawValue)" } ?? "TRUE"
    return "WHERE id < \(id ?? .max) AND \(isAsked) ORDER BY id DESC LIMIT \(limit)"
}
