// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension PendingRejection {
    /// SQL: whether Apple had accepted the token of the credential `c`, rejects it now, and is not believed. The rejection is pending, or was
    /// dropped.
    static let isDoubted = """
        c.answer = 'rejected' AND c.due_at IS NOT NULL AND c.verified_at IS NOT NULL AND COALESCE(c.rejected_at, 0) <= c.verified_at
        """
}

extension TableConnection {
    /// The pending rejections of an app that some rules admit, rule by rule and longest pending first. Leaves out claimed
    /// credentials, and users who have signed in again.
    func pendingRejections(
        of app: Int64,
        admittedBy admissions: [AdmissionRule],
        _ directory: ClientDirectory,
        upTo limit: Int,
        at now: Timestamp
    ) throws -> [ClaimableCredential] {
        guard try fetchInt("SELECT pending FROM app WHERE id = $1 AND paused_at IS NULL", app) > 0 else { return [] }
        let rules = admissions.filter { $0.clientID.map { directory.clients[$0]?.app.id == app } ?? true }
        let breaker = try BreakerRow.load(app, on: self)?.breaker(at: now) ?? RejectionBreaker()
        return try breaker.admissible(rules).reduce(into: []) { admitted, rule in
            guard admitted.count < limit else { return }
            admitted += try pendingRejections(of: app, admittedBy: rule, directory, upTo: limit - admitted.count, at: now)
        }
    }

    private func pendingRejections(
        of app: Int64,
        admittedBy rule: AdmissionRule,
        _ directory: ClientDirectory,
        upTo limit: Int,
        at now: Timestamp
    ) throws -> [ClaimableCredential] {
        try fetchAll(
            """
            SELECT user_id, client, attempts, due_at FROM credential AS c \(dialect.indexed(by: "credential_pending"))
             WHERE app = $1 AND pending_since BETWEEN $2 AND $3 - $4 AND ($5 IS NULL OR client = $5) AND ($6 IS NULL OR pending_key = $6)
               AND ($4 = 0 OR answered_at >= pending_since + $4 AND (answered_at <= $3 OR answered_at >= pending_since + 2 * $4))
               AND (claimed_by IS NULL OR due_at <= $7)
               AND (NOT $8 OR verified_at IS NOT NULL)
               AND NOT EXISTS (SELECT 1 FROM grant_queue g JOIN client ON client.client_id = g.client_id
                                WHERE g.user_id = c.user_id AND g.granted_at > c.token_granted_at AND client.id = c.client
                                  AND \(WaitingGrant.comesSoon("g", at: "$7")))
             ORDER BY pending_since, user_id LIMIT $9
            """,
            app,
            rule.answered.lowerBound,
            rule.answered.upperBound,
            rule.repeatedAfter ?? .zero,
            rule.clientID.flatMap { directory.clients[$0]?.id },
            rule.keyID,
            now,
            rule.onlyAccepted,
            limit
        ).map { ClaimableCredential($0) }
    }
}
