// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension PendingRejection {
    /// SQL: whether Apple had accepted the token of the credential `c`, rejects it now, and is not believed. The rejection is pending, or was
    /// dropped.
    static let isDoubted = """
        c.answer = 'rejected' AND c.due_at IS NOT NULL AND c.verified_at IS NOT NULL AND COALESCE(c.rejected_at, 0) <= c.verified_at
        """

    /// SQL: drops it.
    static let drop = "pending_since = NULL, pending_asked_at = NULL, pending_key = NULL"
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
        guard try fetchInt("SELECT pending FROM app WHERE id = \(app) AND paused_at IS NULL") > 0 else { return [] }
        let rules = admissions.filter { $0.clientID.map { directory.clients[$0]?.app.id == app } ?? true }
        // The settlement believes none of these if somebody else wrote the state.
        let state = try fetchOne("SELECT state FROM breaker WHERE app = \(app)")?.text(at: 0)
        let breaker = RejectionBreaker(row: state)?.breaker(at: now) ?? RejectionBreaker()
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
        let (client, key) = (rule.clientID.flatMap { directory.clients[$0]?.id }.columnValue, rule.keyID.columnValue)
        let (repeated, end) = (rule.repeatedAfter ?? .zero, rule.answered.upperBound)
        return try fetchAll(
            """
            SELECT \(sql: ClaimableCredential.columns) FROM credential AS c \(dialect.indexed(by: "credential_pending"))
             WHERE app = \(app) AND pending_since BETWEEN \(rule.answered.lowerBound) AND \(end) - \(repeated)
               AND (\(client) IS NULL OR client = \(client)) AND (\(key) IS NULL OR pending_key = \(key))
               AND (\(repeated) = 0 OR answered_at >= pending_since + \(repeated)
                                       AND (answered_at <= \(end) OR answered_at >= pending_since + 2 * \(repeated)))
               AND (claimed_by IS NULL OR due_at <= \(now))
               AND (NOT \(rule.onlyAccepted) OR verified_at IS NOT NULL)
               AND NOT EXISTS (SELECT 1 FROM grant_queue g JOIN client ON client.client_id = g.client_id
                                WHERE g.user_id = c.user_id AND g.granted_at > c.token_granted_at AND client.id = c.client
                                  AND \(WaitingGrant.comesSoon("g", at: "\(now)")))
             ORDER BY pending_since, user_id LIMIT \(limit)
            """
        ).map { ClaimableCredential($0) }
    }
}
