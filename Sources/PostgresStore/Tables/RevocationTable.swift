// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Requests to revoke, their tokens, and the receipts.
///
/// They are few beside everything else, so each is written by statements of its own, all in one flight.
struct RevocationTable {
    let connection: Connection
    let directory: ClientDirectory
    let now: Timestamp

    /// - Returns: whether a request has left the queue.
    func write(_ change: RevocationChange) throws -> Bool {
        switch change {
        case .open(let work, let credential, let tokens):
            for token in tokens { try insert(token, for: work, of: credential) }
            try connection.send("UPDATE revocation_queue SET opened_at = $1, attempts = 0, claimed_by = NULL WHERE id = $2", now, work.id)
            return false
        case .postpone(let work, let until):
            try connection.send("UPDATE revocation_queue SET due_at = $1, attempts = 0, claimed_by = NULL WHERE id = $2", until, work.id)
            return false
        case .close(let work, let outcome, let reason):
            try connection.send(
                """
                WITH gone AS (DELETE FROM revocation_queue WHERE id = $4 RETURNING *)
                INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, settled_at, outcome, reason)
                SELECT q.id, app.name, q.client_id, q.user_id, q.requested_at, $1, $2, $3
                  FROM gone q
                  LEFT JOIN client ON client.client_id = q.client_id
                  LEFT JOIN app ON app.id = client.app
                """,
                now,
                outcome.rawValue,
                reason?.rawValue,
                work.id
            )
            return true
        case .proceed(let work, let proof, let due):
            try save(proof, of: work, due: due)
            return false
        case .finish(let work, let proof, let outcome, let reason):
            try log(work, proof, outcome, reason)
            return try close(work)
        }
    }

    private func insert(_ token: TokenToRevoke, for work: ClaimedRevocationRequest, of credential: CredentialID) throws {
        let client = directory.client(token.clientID)
        try connection.send(
            """
            INSERT INTO revocation (request, client, app, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token,
                                    standing, verified_team, due_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
            """,
            work.id,
            client.id,
            client.app.id,
            credential.userID,
            work.requestedAt,
            token.key.grantedAt,
            token.key.fingerprint,
            token.sealed.bytes,
            token.standing.rawValue,
            token.verifiedTeam,
            now
        )
    }

    private func save(_ proof: RevocationProof, of work: DueRevocation, due: Timestamp) throws {
        try connection.send(
            """
            UPDATE revocation
               SET key_id = $1, before_at = $2, before_date = $3, before_answer = $4, revoke_at = $5, revoke_date = $6, revoke_answer = $7,
                   after_at = $8, after_date = $9, after_answer = $10, rounds = $11, failures = $12, standing = $13, verified_team = $14,
                   due_at = $15, attempts = 0, claimed_by = NULL
             WHERE request = $16 AND client = $17 AND token_fingerprint = $18
            """,
            proof.keyID,
            proof.before?.askedAt,
            proof.before?.date,
            proof.before?.word.rawValue,
            proof.revocation?.askedAt,
            proof.revocation?.date,
            proof.revocation?.word.rawValue,
            proof.after?.askedAt,
            proof.after?.date,
            proof.after?.word.rawValue,
            proof.rounds,
            proof.failures,
            work.standing.rawValue,
            work.verifiedTeam,
            due,
            work.request,
            directory.client(work.id.clientID).id,
            work.token.fingerprint
        )
    }

    private func log(
        _ work: DueRevocation,
        _ proof: RevocationProof,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection?
    ) throws {
        try connection.send(
            """
            INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, token_granted_at, key_id,
                                        before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer,
                                        after_at, after_date, after_answer, settled_at, outcome, reason)
            VALUES ($1, $2, $3, $4, $5, $6, $7,  $8, $9, $10, $11, $12, $13,  $14, $15, $16, $17, $18, $19)
            """,
            work.request,
            work.app,
            work.id.clientID,
            work.id.userID,
            work.requestedAt,
            work.token.grantedAt,
            proof.keyID,
            proof.before?.askedAt,
            proof.before?.date,
            proof.before?.word.rawValue,
            proof.revocation?.askedAt,
            proof.revocation?.date,
            proof.revocation?.word.rawValue,
            proof.after?.askedAt,
            proof.after?.date,
            proof.after?.word.rawValue,
            now,
            outcome.rawValue,
            reason?.rawValue
        )
    }

    /// - Returns: whether it was the last token of its request.
    private func close(_ work: DueRevocation) throws -> Bool {
        try connection.send(
            "DELETE FROM revocation WHERE request = $1 AND client = $2 AND token_fingerprint = $3",
            work.request,
            directory.client(work.id.clientID).id,
            work.token.fingerprint
        )
        return try connection.run(
            "DELETE FROM revocation_queue WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM revocation WHERE request = $1)",
            work.request
        ) > 0
    }
}

extension RevocationProof {
    static let columns = """
        key_id, before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer, after_at, after_date, after_answer, rounds,
        failures
        """

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: Row, from start: Int) {
        self.init()
        keyID = row.text(at: start)
        if let at = row.time(at: start + 1), let word = row.text(at: start + 3).flatMap(Answer.Word.init) {
            before = Answer(word, askedAt: at, date: row.time(at: start + 2))
        }
        if let at = row.time(at: start + 4), let word = row.text(at: start + 6).flatMap(Answer.Word.init) {
            revocation = Answer(word, askedAt: at, date: row.time(at: start + 5))
        }
        if let at = row.time(at: start + 7), let word = row.text(at: start + 9).flatMap(Answer.Word.init) {
            after = Answer(word, askedAt: at, date: row.time(at: start + 8))
        }
        rounds = row.int(at: start + 10)
        failures = row.int(at: start + 11)
    }
}
