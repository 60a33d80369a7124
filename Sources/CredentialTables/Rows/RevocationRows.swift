// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Writes revocation requests, their tokens and their receipts to `revocation_queue`, `revocation` and `revocation_log`.
///
/// These rows are few, so each has statements of its own.
package struct RevocationRows<Connection: TableConnection> {
    private let connection: Connection
    private let directory: ClientDirectory
    private let now: Timestamp

    package init(on connection: Connection, directory: ClientDirectory, at now: Timestamp) {
        self.connection = connection
        self.directory = directory
        self.now = now
    }

    /// - Returns: whether a request has left the queue.
    package func write(_ change: RevocationChange) throws -> Bool {
        switch change {
        case .open(let work, let credential, let tokens):
            for token in tokens { try insert(token, for: work.id, of: credential.userID, at: work.effectiveAt, due: now) }
            try connection.execute(
                "UPDATE revocation_queue SET effective_at = $1, opened_at = $2, attempts = 0, claimed_by = NULL WHERE id = $3",
                work.effectiveAt,
                now,
                work.id
            )
            return false
        case .postpone(let work, let until):
            try connection.execute(
                "UPDATE revocation_queue SET effective_at = $1, due_at = $2, attempts = 0, claimed_by = NULL WHERE id = $3",
                work.effectiveAt,
                until,
                work.id
            )
            return false
        case .hold(let work):
            try connection.execute(
                "UPDATE revocation_queue SET effective_at = $1, held_at = $2, due_at = $2, attempts = 0, claimed_by = NULL WHERE id = $3",
                work.effectiveAt,
                now,
                work.id
            )
            return false
        case .close(let work, let outcome, let reason):
            // Copies from the row itself, because a backend may have written text that Swift cannot hold.
            try connection.execute(
                """
                INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, effective_at, settled_at, outcome, reason)
                SELECT q.id, app.name, q.client_id, q.user_id, q.requested_at, $5, $1, $2, $3
                  FROM revocation_queue q
                  LEFT JOIN client ON client.client_id = q.client_id
                  LEFT JOIN app ON app.id = client.app
                 WHERE q.id = $4
                """,
                now,
                outcome.rawValue,
                reason?.rawValue,
                work.id,
                work.effectiveAt
            )
            // The settlement holds the claim, so the row is there.
            try connection.execute("DELETE FROM revocation_queue WHERE id = $1", work.id)
            return true
        case .again(let credential, let wantedAt, let token, let due):
            let request = try connection.fetchOne(
                """
                INSERT INTO revocation_queue (client_id, user_id, requested_at, effective_at, opened_at, due_at)
                VALUES ($1, $2, $3, $4, $5, $6) RETURNING id
                """,
                credential.clientID,
                credential.userID,
                now,
                wantedAt,
                token.map { _ in now },
                due
            )
            if let token, let request { try insert(token, for: request.integer(at: 0), of: credential.userID, at: wantedAt, due: due) }
            return false
        case .proceed(let work, let proof, let due):
            try save(proof, of: work, due: due)
            return false
        case .finish(let work, let proof, let outcome, let reason):
            try log(work, proof, outcome, reason)
            return try close(work)
        }
    }

    private func insert(
        _ token: TokenToRevoke,
        for request: Int64,
        of userID: String,
        at wantedAt: Timestamp?,
        due: Timestamp
    ) throws {
        let client = directory.client(token.clientID)
        try connection.execute(
            """
            INSERT INTO revocation (request, client, app, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token,
                                    standing, verified_team, due_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
            """,
            request,
            client.id,
            client.app.id,
            userID,
            wantedAt,
            token.key.grantedAt,
            token.key.fingerprint,
            token.sealed.bytes,
            token.standing.rawValue,
            token.verifiedTeam,
            due
        )
    }

    private func save(_ proof: RevocationProof, of work: DueRevocation, due: Timestamp) throws {
        try connection.execute(
            """
            UPDATE revocation
               SET key_id = $1, before_at = $2, before_date = $3, before_answer = $4, revoke_at = $5, revoke_date = $6, revoke_answer = $7,
                   after_at = $8, after_date = $9, after_answer = $10, rounds = $11, failures = $12, standing = $13, verified_team = $14,
                   due_at = $15, attempts = 0, claimed_by = NULL
             WHERE request = $16 AND client = $17 AND token_fingerprint = $18
            """,
            proof.answers + [
                proof.rounds.columnValue,
                proof.failures.columnValue,
                work.standing.rawValue.columnValue,
                work.verifiedTeam.columnValue,
                due.columnValue,
                work.request.columnValue,
                directory.client(work.id.clientID).id.columnValue,
                work.token.fingerprint.columnValue,
            ]
        )
    }

    private func log(
        _ work: DueRevocation,
        _ proof: RevocationProof,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection?
    ) throws {
        try connection.execute(
            """
            INSERT INTO revocation_log (key_id, before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer,
                                        after_at, after_date, after_answer, request, app, client_id, user_id, requested_at,
                                        effective_at, token_granted_at, settled_at, outcome, reason)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                    COALESCE((SELECT requested_at FROM revocation_queue WHERE id = $11), $15), $16, $17, $18, $19, $20)
            """,
            proof.answers + [
                work.request.columnValue,
                work.app.columnValue,
                work.id.clientID.columnValue,
                work.id.userID.columnValue,
                work.requestedAt.columnValue,
                work.wantedAt(by: proof).columnValue,
                work.token.grantedAt.columnValue,
                now.columnValue,
                outcome.rawValue.columnValue,
                reason?.rawValue.columnValue ?? String.null,
            ]
        )
    }

    /// - Returns: whether it was the last token of its request.
    private func close(_ work: DueRevocation) throws -> Bool {
        try connection.execute(
            "DELETE FROM revocation WHERE request = $1 AND client = $2 AND token_fingerprint = $3",
            work.request,
            directory.client(work.id.clientID).id,
            work.token.fingerprint
        )
        return try connection.change(
            "DELETE FROM revocation_queue WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM revocation WHERE request = $1)",
            work.request
        ) > 0
    }
}

extension KnownRequests {
    /// SQL: what `read` reads. The parameter is a JSON array of users.
    package static func selection(_ dialect: Dialect) -> String {
        """
        SELECT app.name, r.user_id, r.token_granted_at, r.requested_at, r.request, client.client_id, r.token_fingerprint, r.before_at, r.before_date
          FROM revocation r JOIN app ON app.id = r.app JOIN client ON client.id = r.client
         WHERE \(dialect.isOne("r.user_id", ofTexts: "$1"))
         UNION ALL
        SELECT app, user_id, token_granted_at, effective_at, request, client_id, NULL, NULL, NULL
          FROM revocation_log WHERE \(dialect.isOne("user_id", ofTexts: "$1")) AND effective_at IS NOT NULL
        """
    }

    /// - Parameter rows: of `selection`. Those of open requests have a fingerprint.
    package static func read(_ rows: some Sequence<some TableRow>) -> [AppUserID: KnownRequests] {
        rows.reduce(into: [:]) { known, row in
            let id = AppUserID(app: row.text(at: 0) ?? "", userID: row.text(at: 1) ?? "")
            let time = Timestamp(milliseconds: row.integer(at: 3))
            guard let grantedAt = row.time(at: 2) else { return known[id, default: KnownRequests()].note(nil, from: time) }
            let token = RevocationID(request: row.integer(at: 4), clientID: row.text(at: 5) ?? "", fingerprint: row.bytes(at: 6))
            let wantedAt = DueRevocation.wantedAt(time, askedAt: row.time(at: 7), date: row.time(at: 8), tokenGrantedAt: grantedAt)
            known[id, default: KnownRequests()].note(token, from: wantedAt, isOpen: !row.isNull(at: 6))
        }
    }
}

extension RevocationProof {
    /// The columns that `init(_:from:)` reads.
    package static let columns = """
        key_id, before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer, after_at, after_date, after_answer, rounds,
        failures
        """

    /// - Parameter row: `columns`, from the given index on.
    package init(_ row: some TableRow, from start: Int) {
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

    /// The key and the three answers, in the order of `columns`.
    fileprivate var answers: [ColumnValue] {
        [keyID.columnValue]
            + [before, revocation, after].flatMap { answer in
                [
                    answer?.askedAt.columnValue ?? Timestamp.null,
                    answer?.date.columnValue ?? Timestamp.null,
                    answer?.word.rawValue.columnValue ?? String.null,
                ]
            }
    }
}
