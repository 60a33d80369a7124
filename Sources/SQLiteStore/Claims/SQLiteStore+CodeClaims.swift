// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import GRDB
import NIOConcurrencyHelpers

/// Grants that bring an authorization code. Few wait at any time, because none lives long.
extension SQLiteStore {
    package func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedCode] {
        guard limit > 0 else { return [] }
        let apps = directory.withLockedValue { $0 }.appNames
        // Chosen before the write lock is taken: however long that takes, no backend waits for it.
        let rows = try await read { db in
            var left = permits
            var rows: [(id: Int64, attempts: Int)] = []
            // A due time beyond any that a code is put off to is of a clock that has since been set back.
            let due = try PreparedStatement(
                """
                SELECT id, attempts, CAST(client_id AS BLOB), MIN(granted_at, COALESCE(waits_since, granted_at)) FROM grant_queue
                 WHERE authorization_code IS NOT NULL AND (due_at <= ?1 OR due_at > ?2) ORDER BY granted_at, id LIMIT ?3
                """,
                in: db
            )
            let furthest = now.advanced(by: AuthorizationCode.life * 2)
            try due.forEachRow(now, furthest, Self.mostCodesSeen) { row in
                guard rows.count < limit else { return }
                let app = String(validating: row.bytes(at: 2), as: UTF8.self).flatMap { apps[$0] }
                let isLate = Timestamp(milliseconds: row.integer(at: 3)).advanced(by: AuthorizationCode.life) <= now
                if let app, let permits = left[app], !isLate {
                    guard permits > 0 else { return }
                    left[app] = permits - 1
                }
                rows.append((row.integer(at: 0), Int(row.integer(at: 1))))
            }
            return Claim.claimable(rows, suspects: suspects)
        }
        guard !rows.isEmpty else { return [] }
        return try await write { [owner] db in
            let statement = try db.cachedStatement(
                sql: """
                    UPDATE grant_queue
                       SET due_at = ?1, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?2, waits_since = MIN(COALESCE(waits_since, ?3), ?3)
                     WHERE id = ?4
                    RETURNING attempts, granted_at, waits_since, MIN(MAX(failures, 0), 1000), answer_lost, CAST(client_id AS BLOB), CAST(user_id AS BLOB),
                              CAST(authorization_code AS BLOB), CAST(redirect_uri AS BLOB), CAST(nonce AS BLOB)
                    """
            )
            let leaseEnd = now.advanced(by: lease).milliseconds
            return try rows.compactMap { id in
                try Row.fetchOne(statement, arguments: [leaseEnd, owner, now.milliseconds, id]).map { row in
                    let content = ClaimedCode.Content(row, from: 5)
                    return ClaimedCode(
                        id: id,
                        claim: Claim(owner: owner, attempts: row[0]),
                        app: content.flatMap { apps[$0.clientID] },
                        grantedAt: Timestamp(milliseconds: row[1]),
                        firstClaimedAt: Timestamp(milliseconds: row[2]),
                        failures: row[3],
                        isAnswerLost: row[4],
                        content: content
                    )
                }
            }
        }
    }

    /// Those of a paused app stay due, and are passed over.
    private static let mostCodesSeen = 10_000
}

extension ClaimedCode.Content {
    /// Reads what the backend wrote as bytes, because SQLite's text may hold anything. Nil where it is not UTF-8, or too long.
    fileprivate init?(_ row: Row, from start: Int) {
        guard let clientID = row.text(at: start, upTo: Longest.identifier), let code = row.text(at: start + 2, upTo: Longest.token) else {
            return nil
        }
        let limits = [start + 1: Longest.identifier, start + 3: Longest.uri, start + 4: Longest.identifier]
        var texts: [Int: String] = [:]
        for (index, limit) in limits where row.hasValue(at: index) {
            guard let text = row.text(at: index, upTo: limit) else { return nil }
            // An empty address of return or nonce is none: a native sign-in has neither.
            if !text.isEmpty { texts[index] = text }
        }
        self.init(
            clientID: clientID,
            userID: texts[start + 1],
            code: Secret(code),
            redirectURI: texts[start + 3],
            nonce: texts[start + 4]
        )
    }
}
