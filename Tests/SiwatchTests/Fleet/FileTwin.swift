// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

/// One siwatch on an SQLite file that is told what a fleet was told: by the facts alone it has to come to the same rows.
///
/// What is told are the same sign-ins with the same tokens at the same times, the same notifications byte by byte, and the same requests. A
/// code is good once, so that whoever came by code signs in by another one here; and all sign-ins come first, then all notifications, then
/// all requests, because the order is not to matter.
struct FileTwin {
    private let site: Site

    init(of site: Site) {
        self.site = site
    }

    /// - Parameter facts: of which all are settled there.
    /// - Returns: the rows that stand on one side only.
    func differences(after facts: [FleetPeople.Fact]) async throws -> [String] {
        var differences: [String] = []
        try await site.withNeighbour { folder in
            try folder.configure(apple: site.apple, ["refresh": "max_requests_per_second = 1000"])
            try await folder.complete("migrate")
            let backend = try Backend(databasePath: folder.databasePath)
            let rejected = try await site.backend.rows("SELECT user_id FROM grant_log WHERE outcome = 'rejected'")
            let lost = Set(rejected.map { $0[0] as String })
            try await folder.withDaemon { _ in try await tell(facts, without: lost, to: backend) }
            let byCode = Set(facts.flatMap(\.byCode).map(\.userID)).subtracting(lost)
            for comparison in Comparison.all {
                let here = try await comparison.rows(of: backend, byCode)
                let there = try await comparison.rows(of: site.backend, byCode)
                for row in Set(here.keys).union(there.keys) where here[row] != there[row] {
                    differences.append("\(comparison.table): \(here[row] ?? 0) in the file, \(there[row] ?? 0) on the server: \(row)")
                }
            }
            try backend.close()
        }
        return differences.sorted()
    }

    /// - Parameter lost: whose code was.
    private func tell(_ facts: [FleetPeople.Fact], without lost: Set<String>, to backend: Backend) async throws {
        for case .signIns(let signIns) in facts { try await backend.insert(signIns) }
        for signIns in facts.map(\.byCode) {
            let users = signIns.map(\.userID).filter { !lost.contains($0) }
            guard !users.isEmpty else { continue }
            let again = try await site.apple.signInByCode(users, clientID: signIns[0].clientID)
            try await backend.insert(codes: again.compactMap(CodeRow.init))
        }
        try await backend.until("SELECT COUNT(*) FROM grant_queue", is: 0, within: .seconds(600))
        for case .notifications(let bodies) in facts { try await backend.insert(notifications: bodies) }
        for case .leaving(let users) in facts { try await backend.insert(revocationsOf: users, at: SimulatedApple.clientIDs[0]) }
        let waiting = "SELECT (SELECT COUNT(*) FROM notification_queue) + (SELECT COUNT(*) FROM revocation_queue)"
        try await backend.until(waiting, is: 0, within: .seconds(600))
    }
}

extension FleetPeople.Fact {
    fileprivate var byCode: [SignIn] {
        if case .codes(let signIns) = self { signIns } else { [] }
    }
}

/// What of a table follows from the facts, and so has to be the same wherever they were told.
///
/// Left out is what hangs on when Apple was asked and what it said then (`verified_at`, `rejected_at`, `answered_at`, `answer`, `due_at`,
/// `failures`, `first_check`, the moments of a proof), on who has claimed what (`attempts`, `claimed_by`, `claims`), on the order in which
/// facts came (ids, `settled_at`, `applied` or `stale`, which of two receipts is the duplicate, all of `credential_change` but its last word),
/// and on the database's own random keys (`token_fingerprint`, `sealed_token`). The sign-in by a code is dated by its exchange, so that of
/// whoever came by code the moments are left out, too. Codes whose answer was lost have no like: their people have signed in once more.
private struct Comparison {
    let table: String
    let sql: String
    /// Columns that are left out of those who came by code.
    var moments: Set<String> = []

    static let all = [
        Comparison(
            table: "credential",
            sql: """
                SELECT c.user_id, k.client_id, c.state, c.reason, c.changed_at, c.granted_at, c.token_granted_at, c.revoked_at,
                       CASE WHEN c.revoked_at IS NULL THEN 0 ELSE 1 END AS is_revoked,
                       CASE WHEN c.sealed_token IS NULL THEN 0 ELSE 1 END AS holds_token,
                       CASE WHEN c.due_at IS NULL THEN 0 ELSE 1 END AS is_watched,
                       CASE WHEN c.never_accepted THEN 1 ELSE 0 END AS never_accepted,
                       CASE WHEN c.unverified THEN 1 ELSE 0 END AS unverified
                  FROM credential c JOIN client k ON k.id = c.client
                """,
            moments: ["changed_at", "granted_at", "token_granted_at", "revoked_at"]
        ),
        // The server has an empty row for whoever it knows nothing of.
        Comparison(
            table: "user_event",
            sql: """
                SELECT user_id, consent_revoked_at, deleted_at, revoked_at, CASE WHEN revoked_at IS NULL THEN 0 ELSE 1 END AS is_revoked,
                       email_at, email_rank, email, email_is_private, forwarding_at, forwarding
                  FROM user_event
                 WHERE COALESCE(consent_revoked_at, deleted_at, revoked_at, email_at, forwarding_at) IS NOT NULL
                """,
            moments: ["revoked_at", "email_at"]
        ),
        Comparison(
            table: "user_state",
            sql: "SELECT user_id, app, state, reason, changed_at, email, email_is_private, email_forwarding FROM user_state",
            moments: ["changed_at"]
        ),
        Comparison(
            table: "notification_log",
            sql: """
                SELECT user_id, app, client_id, jti, type, event_time, COUNT(*) AS rows, COUNT(payload) AS payloads,
                       SUM(CASE outcome WHEN 'duplicate' THEN 1 ELSE 0 END) AS duplicates
                  FROM notification_log GROUP BY user_id, app, client_id, jti, type, event_time
                """
        ),
        Comparison(
            table: "notification_quarantine",
            sql: "SELECT reason, COALESCE(detail, '') AS detail, COUNT(*) AS rows FROM notification_quarantine GROUP BY 1, 2"
        ),
        Comparison(
            table: "grant_log",
            sql: """
                SELECT user_id, client_id, granted_at, CASE outcome WHEN 'stale' THEN 'applied' ELSE outcome END AS outcome
                  FROM grant_log WHERE outcome <> 'rejected'
                """,
            moments: ["granted_at"]
        ),
        // What whoever follows the feed believes in the end.
        Comparison(
            table: "credential_change",
            sql: """
                SELECT user_id, client_id, to_state, reason FROM (
                  SELECT *, row_number() OVER (PARTITION BY user_id, client_id ORDER BY id DESC) AS place
                    FROM credential_change WHERE kind = 'state') AS told
                 WHERE place = 1
                """
        ),
        Comparison(table: "revocation_log", sql: "SELECT user_id, app, client_id, outcome, reason FROM revocation_log"),
        Comparison(
            table: "credential_count",
            sql: "SELECT app.name, c.state, c.count FROM credential_count c JOIN app ON app.id = c.app WHERE c.count <> 0"
        ),
    ]

    /// How often each row stands there.
    ///
    /// - Parameter byCode: people.
    func rows(of backend: Backend, _ byCode: Set<String>) async throws -> [String: Int] {
        let rows = try await backend.rows(sql).map { row in
            let isByCode = row.hasColumn("user_id") && byCode.contains(row["user_id"])
            return row.map { column, value in isByCode && moments.contains(column) ? "" : "\(column) \(value.storage.text)" }
                .joined(separator: ", ")
        }
        return Dictionary(rows.map { ($0, 1) }, uniquingKeysWith: +)
    }
}

extension DatabaseValue.Storage {
    fileprivate var text: String {
        switch self {
        case .null: "NULL"
        case .int64(let number): "\(number)"
        case .double(let number): "\(number)"
        case .string(let text): text
        case .blob(let bytes): bytes.base64EncodedString()
        }
    }
}
