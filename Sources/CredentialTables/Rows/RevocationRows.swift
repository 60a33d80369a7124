// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Writes to `revocation_queue`, `revocation` and `revocation_log`. Rows are few, so each has statements of its own.
struct RevocationRows<Connection: TableConnection> {
    let connection: Connection
    let directory: ClientDirectory
    let decisions: DecisionBook
    let now: Timestamp

    /// - Returns: whether a request has left the queue.
    func write(_ change: RevocationChange) throws -> Bool {
        switch change {
        case .open(let work, let credential, let tokens):
            for token in tokens { try insert(token, for: work.id, of: credential.userID, at: work.effectiveAt, due: now) }
            try put(work, "opened_at = \(now)")
            return false
        case .postpone(let work, let until):
            try put(work, "due_at = \(until)")
            return false
        case .hold(let work):
            try put(work, "held_at = \(now), due_at = \(now)")
            return false
        case .close(let work, let outcome, let reason):
            // Copies from the row itself, because a backend may have written text that Swift cannot hold.
            try connection.execute(
                """
                INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, effective_at, settled_at, outcome, reason)
                SELECT q.id, app.name, q.client_id, q.user_id, q.requested_at, \(work.effectiveAt.columnValue), \(now), \(outcome.rawValue),
                       \((reason?.rawValue).columnValue)
                  FROM revocation_queue q
                  LEFT JOIN client ON client.client_id = q.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE q.id = \(work.id)
                """
            )
            // The settlement holds the claim, so the row is there.
            try connection.execute("DELETE FROM revocation_queue WHERE id = \(work.id)")
            return true
        case .again(let credential, let wantedAt, let token, let due):
            let request = try connection.insert(
                """
                revocation_queue (client_id, user_id, requested_at, effective_at, opened_at, due_at)
                VALUES (\(credential.clientID), \(credential.userID), \(now), \(wantedAt), \(token.map { _ in now }.columnValue), \(due))
                """
            )
            if let token { try insert(token, for: request, of: credential.userID, at: wantedAt, due: due) }
            return false
        case .proceed(let work, let proof, let due):
            let state = bound(proof.rounds, proof.failures, work.standing.rawValue, work.verifiedTeam, due)
            try connection.execute(.saveProof, [key(of: work) + proof.answers + state])
            return false
        case .finish(let work, let proof, let outcome, let reason):
            try log(work, proof, outcome, reason)
            return try close(work)
        }
    }

    private func put(_ work: ClaimedRevocationRequest, _ changes: SQL) throws {
        try connection.execute(
            """
            UPDATE revocation_queue SET effective_at = \(work.effectiveAt.columnValue), \(changes), \(sql: Claim.end)
             WHERE id = \(work.id)
            """
        )
    }

    private func insert(_ token: TokenToRevoke, for request: Int64, of userID: String, at wantedAt: Timestamp?, due: Timestamp) throws {
        let (client, key) = (directory.client(token.clientID), token.key)
        let whose = bound(request, client.id, key.fingerprint, client.app.id, userID, wantedAt, key.grantedAt)
        let credential = CredentialID(clientID: token.clientID, userID: userID)
        let proof = wantedAt.flatMap { decisions.proof(of: .opening(request: request, credential, key, requestedAt: $0)) }
        let state = bound(token.sealed.bytes, token.standing.rawValue, token.verifiedTeam, due, proof)
        try connection.execute(.insertToken, [whose + state])
    }

    private func key(of work: DueRevocation) -> [ColumnValue] {
        bound(work.request, directory.client(work.id.clientID).id, work.token.fingerprint)
    }

    private func log(_ work: DueRevocation, _ proof: RevocationProof, _ outcome: RevocationOutcome, _ reason: RevocationRejection?) throws {
        let (wantedAt, grantedAt) = (work.wantedAt(by: proof), work.token.grantedAt)
        let receipt = Decision.receipt(request: work.request, work.id, tokenGrantedAt: grantedAt, effectiveAt: wantedAt)
        let isGivenUp = reason?.isGivenUp ?? false
        let proofOfReceipt = isGivenUp ? nil : decisions.proof(of: receipt)
        let namedTime: Timestamp? = isGivenUp ? nil : grantedAt
        let effectiveAt: Timestamp? = work.isPlanted ? nil : wantedAt
        try connection.execute(
            """
            INSERT INTO revocation_log (\(sql: RevocationProof.answerColumns.joined(separator: ", ")), request, app, client_id, user_id,
                                        requested_at, effective_at, token_granted_at, settled_at, outcome, reason, proof)
            VALUES (\(values: proof.answers), \(work.request), \(work.app), \(work.id.clientID), \(work.id.userID),
                    COALESCE((SELECT requested_at FROM revocation_queue WHERE id = \(work.request)), \(work.requestedAt)),
                    \(effectiveAt.columnValue), \(namedTime.columnValue), \(now), \(outcome.rawValue), \((reason?.rawValue).columnValue),
                    \(proofOfReceipt.columnValue))
            """
        )
    }

    /// - Returns: whether it was the last token of its request.
    private func close(_ work: DueRevocation) throws -> Bool {
        try connection.execute(.deleteToken, [key(of: work)])
        return try connection.change(
            """
            DELETE FROM revocation_queue
             WHERE id = \(work.request) AND NOT EXISTS (SELECT 1 FROM revocation WHERE request = \(work.request))
            """
        ) > 0
    }
}

extension RowStatement {
    fileprivate static let insertToken = insert(
        into: "revocation",
        DueRevocation.keyColumns
            + ["app", "user_id", "requested_at", "token_granted_at", "sealed_token", "standing", "verified_team", "due_at", "proof"]
    )
    fileprivate static let saveProof = update(
        "revocation",
        key: DueRevocation.keyColumns,
        RevocationProof.answerColumns + ["rounds", "failures", "standing", "verified_team", "due_at"],
        others: ", \(Claim.end)"
    )
    fileprivate static let deleteToken = delete(from: "revocation", key: DueRevocation.keyColumns)
}

extension KnownRequests {
    static func selection(of userIDs: [String], _ dialect: Dialect) throws -> SQL {
        """
        SELECT app.name, r.user_id, r.token_granted_at, r.requested_at, r.request, client.client_id, r.token_fingerprint, r.before_at,
               r.before_date, r.proof
          FROM revocation r JOIN app ON app.id = r.app JOIN client ON client.id = r.client
         WHERE \(try dialect.isOne("r.user_id", of: userIDs))
         UNION ALL
        SELECT app, user_id, token_granted_at, effective_at, request, client_id, NULL, NULL, NULL, proof
          FROM revocation_log WHERE \(try dialect.isOne("user_id", of: userIDs)) AND effective_at IS NOT NULL
        """
    }

    /// - Parameter row: of `selection`. A row of an open request has a fingerprint. One that siwatch has not written counts as one without
    ///   a token, so that the revocation limit decides.
    static func read(
        _ row: some TableRow,
        into known: inout [AppUserID: KnownRequests],
        _ directory: ClientDirectory,
        _ decisions: DecisionBook
    ) {
        let (id, time): (AppUserID, Timestamp) = (AppUserID(app: row[0], userID: row[1]), row[3])
        let token = RevocationID(request: row[4], clientID: row[5], fingerprint: row[6])
        let credential = CredentialID(clientID: token.clientID, userID: id.userID)
        func isOurs(_ grantedAt: Timestamp) -> Bool {
            let key = RefreshToken.Key(grantedAt: grantedAt, fingerprint: token.fingerprint)
            let decision =
                row.isNull(at: 6)
                ? Decision.receipt(request: token.request, credential, tokenGrantedAt: grantedAt, effectiveAt: time)
                : .opening(request: token.request, credential, key, requestedAt: time)
            // The proof does not name the app, because an app may get another name.
            let proof = directory.appNames[token.clientID] == id.app ? row.bytes(at: 9) : []
            return decisions.isProved(decision, by: proof, in: DecisionRow(.revocation, token.request))
        }
        guard let grantedAt = row.time(at: 2), isOurs(grantedAt) else { return known[id, default: KnownRequests()].note(nil, from: time) }
        let wantedAt = DueRevocation.wantedAt(time, askedAt: row.time(at: 7), date: row.time(at: 8), tokenGrantedAt: grantedAt)
        known[id, default: KnownRequests()].note(token, from: wantedAt, isOpen: !row.isNull(at: 6))
    }
}

extension RevocationProof {
    /// The columns of the key and the three answers.
    static let answerColumns = [
        "key_id", "before_at", "before_date", "before_answer", "revoke_at", "revoke_date", "revoke_answer", "after_at", "after_date",
        "after_answer",
    ]
    /// SQL: the columns that `init(_:from:)` reads.
    static let columns = (answerColumns + ["rounds", "failures"]).joined(separator: ", ")

    init(_ row: some TableRow, from start: Int) {
        self.init()
        func answer(from column: Int) -> Answer? {
            guard let at = row.time(at: column), let word = row.text(at: column + 2).flatMap(Answer.Word.init) else { return nil }
            return Answer(word, askedAt: at, date: row.time(at: column + 1))
        }
        keyID = row.text(at: start)
        before = answer(from: start + 1)
        revocation = answer(from: start + 4)
        after = answer(from: start + 7)
        rounds = row.count(at: start + 10)
        failures = row.count(at: start + 11)
    }

    fileprivate var answers: [ColumnValue] {
        bound(keyID) + [before, revocation, after].flatMap { bound($0?.askedAt, $0?.date, $0?.word.rawValue) }
    }
}
