// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB

/// The numbers of rows by table and value, from one consistent read of the database.
package struct Tally: Sendable {
    package enum Subject: String {
        /// Users, by reason.
        case state
        /// Users, by the relay's forwarding.
        case forwarding
        /// Rows of each log, by outcome or reason.
        case grantLog = "grant_log", revocationLog = "revocation_log", notificationLog = "notification_log", quarantine =
            "notification_quarantine"
        /// Waiting rows, by table.
        case queue
    }

    private var counts: [Subject: [String: Int]] = [:]

    package init(of backend: Backend) async throws {
        let rows = try await backend.rows(
            """
            SELECT 'state'      AS subject, reason AS name,   COUNT(*) AS count FROM user_state GROUP BY reason
            UNION ALL
            SELECT 'forwarding',            email_forwarding, COUNT(*) FROM user_state
             WHERE email_forwarding IS NOT NULL GROUP BY email_forwarding
            UNION ALL
            SELECT 'grant_log',             outcome,          COUNT(*) FROM grant_log               GROUP BY outcome
            UNION ALL
            SELECT 'notification_log',      outcome,          COUNT(*) FROM notification_log        GROUP BY outcome
            UNION ALL
            SELECT 'notification_quarantine', reason,         COUNT(*) FROM notification_quarantine GROUP BY reason
            UNION ALL
            SELECT 'queue',                 'grants',         COUNT(*) FROM grant_queue
            UNION ALL
            SELECT 'revocation_log',        outcome,          COUNT(*) FROM revocation_log          GROUP BY outcome
            UNION ALL
            SELECT 'queue',                 'revocations',    COUNT(*) FROM revocation_queue
            UNION ALL
            SELECT 'queue',                 'notifications',  COUNT(*) FROM notification_queue
            """
        )
        for row in rows {
            guard let subject = Subject(rawValue: row["subject"]) else { continue }
            counts[subject, default: [:]][row["name"]] = row["count"]
        }
    }

    package subscript(subject: Subject, name: String) -> Int { counts[subject]?[name] ?? 0 }

    subscript(subject: Subject) -> [String: Int] { counts[subject] ?? [:] }

    package func total(_ subject: Subject) -> Int { self[subject].values.reduce(0, +) }
}
