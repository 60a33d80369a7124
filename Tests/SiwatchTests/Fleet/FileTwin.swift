// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

/// One siwatch on an SQLite file with the same input as a fleet. From the facts alone it must derive the same rows.
///
/// It gets the same sign-ins with the same tokens and times, the same notifications byte by byte, and the same requests. A code is good
/// once, so people with codes sign in by new codes here. All sign-ins come first, then all notifications, then all requests, because the
/// order must not matter.
struct FileTwin {
    private let site: Site

    init(of site: Site) { self.site = site }

    /// - Parameter facts: the fleet has settled all of them.
    /// - Returns: the rows that are on one side only.
    func differences(after facts: [FleetPeople.Fact]) async throws -> [String] {
        var differences: [String] = []
        try await site.withNeighbour { folder in
            try folder.configure(apple: site.apple, ["refresh": "max_requests_per_second = 1000", "revocations": "max_per_hour = 100000"])
            try await folder.succeed("migrate")
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

    /// - Parameter lost: users whose code's answer was lost.
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
    fileprivate var byCode: [SignIn] { if case .codes(let signIns) = self { signIns } else { [] } }
}

/// The columns of a table that follow from the facts, and so must be the same on both sides.
///
/// It leaves out columns that depend on when siwatch asked Apple and on the answer (`verified_at`, `rejected_at`, `answered_at`, `answer`,
/// `due_at`, `failures`, `first_check`, the moments of a proof). It leaves out the claims (`attempts`, `claimed_by`, `claims`). It leaves
/// out columns that depend on the order of the facts (ids, `settled_at`, `applied` or `stale`, the choice of the duplicate among two
/// receipts, all of `credential_change` but its last row). It leaves out values under the database's own random keys (`token_fingerprint`,
/// `sealed_token`).
///
/// A sign-in by code has the date of its exchange, so the moments of people with codes are left out, too. Codes with a lost answer have no
/// counterpart, because their people have signed in once more.
private struct Comparison {
    let table: String
    let sql: String
    /// Columns that it leaves out for people with codes.
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
        // The server has an empty row for a user without facts.
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
        // The final state of a follower of the feed.
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

    /// The number of times that each row occurs.
    ///
    /// - Parameter byCode: users who signed in by code.
    func rows(of backend: Backend, _ byCode: Set<String>) async throws -> [String: Int] {
        let rows = try await backend.rows(sql).map { row in
            let isByCode = row.hasColumn("user_id") && byCode.contains(row["user_id"])
            return row.map { column, value in isByCode && moments.contains(column) ? "" : "\(column) \(value.text)" }
                .joined(separator: ", ")
        }
        return Dictionary(rows.map { ($0, 1) }, uniquingKeysWith: +)
    }
}

extension DatabaseValue {
    fileprivate var text: String {
        switch storage {
        case .null, .int64, .double: description
        case .string(let text): text
        case .blob(let bytes): bytes.base64EncodedString()
        }
    }
}
