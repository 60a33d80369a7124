// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Grants that bring an authorization code. Few wait at any time, because none lives long.
extension PostgresStore {
    package func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool
    ) async throws -> [ClaimedCode] {
        guard limit > 0 else { return [] }
        let apps = directory.withLockedValue { $0 }.appNames
        // A due time beyond any that a code is put off to is of a clock that has since been set back.
        let furthest = now.advanced(by: AuthorizationCode.life * 2)
        return try await runClaim { [owner] connection in
            var left = permits
            var chosen: [(id: Int64, attempts: Int)] = []
            try connection.rows(
                """
                SELECT id, attempts, client_id, LEAST(granted_at, COALESCE(waits_since, granted_at)) FROM grant_queue
                 WHERE authorization_code IS NOT NULL AND (due_at <= $1 OR due_at > $2) ORDER BY granted_at, id LIMIT \(Self.mostCodesSeen)
                """,
                now,
                furthest
            ).forEach { row in
                guard chosen.count < limit else { return }
                let isLate = Timestamp(milliseconds: row.integer(at: 3)).advanced(by: AuthorizationCode.life) <= now
                if let app = row.text(at: 2).flatMap({ apps[$0] }), let permits = left[app], !isLate {
                    guard permits > 0 else { return }
                    left[app] = permits - 1
                }
                chosen.append((row.integer(at: 0), row.int(at: 1)))
            }
            let ids = Claim.claimable(chosen, suspects: suspects)
            guard !ids.isEmpty else { return [] }
            // Others may have taken some of them meanwhile.
            let rows = try connection.rows(
                """
                WITH free AS (
                  SELECT id FROM grant_queue WHERE id = ANY($1) AND (due_at <= $2 OR due_at > $3) ORDER BY id FOR UPDATE SKIP LOCKED)
                UPDATE grant_queue q
                   SET due_at = $4, attempts = LEAST(GREATEST(q.attempts, 0), 1000) + 1, claimed_by = $5,
                       waits_since = LEAST(COALESCE(q.waits_since, $2), $2)
                  FROM free WHERE q.id = free.id AND q.id = ANY($1)
                RETURNING q.id, q.attempts, q.granted_at, q.waits_since, LEAST(GREATEST(q.failures, 0), 1000), q.answer_lost <> 0,
                          q.client_id, q.user_id, q.authorization_code, q.redirect_uri, q.nonce
                """,
                ArrayOf(ids),
                now,
                furthest,
                now.advanced(by: lease),
                owner
            )
            let codes = rows.map { row in
                let content = ClaimedCode.Content(row, from: 6)
                return ClaimedCode(
                    id: row.integer(at: 0),
                    claim: Claim(owner: owner, attempts: row.int(at: 1)),
                    app: content.flatMap { apps[$0.clientID] },
                    grantedAt: Timestamp(milliseconds: row.integer(at: 2)),
                    firstClaimedAt: Timestamp(milliseconds: row.integer(at: 3)),
                    failures: row.int(at: 4),
                    isAnswerLost: row.bool(at: 5),
                    content: content
                )
            }
            let places = Dictionary(uniqueKeysWithValues: ids.enumerated().map { ($1, $0) })
            return codes.sorted { places[$0.id]! < places[$1.id]! }
        }
    }

    /// Those of a paused app stay due, and are passed over.
    private static let mostCodesSeen = 10_000
}

extension ClaimedCode.Content {
    /// Nil where something is too long to have been meant.
    ///
    /// - Parameter row: `client_id, user_id, authorization_code, redirect_uri, nonce`, from the given index on.
    fileprivate init?(_ row: Row, from start: Int) {
        guard let clientID = row.text(at: start, upTo: Longest.identifier), let code = row.text(at: start + 2, upTo: Longest.token) else {
            return nil
        }
        let limits = [start + 1: Longest.identifier, start + 3: Longest.uri, start + 4: Longest.identifier]
        var texts: [Int: String] = [:]
        for (index, limit) in limits where !row.isNull(at: index) {
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
