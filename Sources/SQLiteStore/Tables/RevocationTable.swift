// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Requests to revoke, their tokens, and the receipts.
struct RevocationTable {
    let db: Database
    let directory: ClientDirectory
    let now: Timestamp

    /// - Returns: whether a request has left the queue.
    func write(_ change: RevocationChange) throws -> Bool {
        switch change {
        case .open(let work, let credential, let tokens):
            for token in tokens { try insert(token, for: work, of: credential) }
            try db.execute(
                cached: "UPDATE revocation_queue SET opened_at = ?, attempts = 0, claimed_by = NULL WHERE id = ?",
                [now.milliseconds, work.id]
            )
            return false
        case .postpone(let work, let until):
            try db.execute(
                cached: "UPDATE revocation_queue SET due_at = ?, attempts = 0, claimed_by = NULL WHERE id = ?",
                [until.milliseconds, work.id]
            )
            return false
        case .close(let work, let outcome, let reason):
            // From the row itself: what the backend wrote may not be text that Swift can hold.
            try db.execute(
                cached: """
                    INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, settled_at, outcome, reason)
                    SELECT q.id, app.name, q.client_id, q.user_id, q.requested_at, ?, ?, ?
                      FROM revocation_queue q
                      LEFT JOIN client ON client.client_id = q.client_id
                      LEFT JOIN app ON app.id = client.app
                     WHERE q.id = ?
                    """,
                [now.milliseconds, outcome.rawValue, reason?.rawValue, work.id]
            )
            return try db.changed(cached: "DELETE FROM revocation_queue WHERE id = ?", [work.id])
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
        try PreparedStatement(
            """
            INSERT INTO revocation (request, client, app, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token,
                                    standing, verified_team, due_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            in: db
        ).run(
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
        try PreparedStatement(
            """
            UPDATE revocation
               SET key_id = ?, before_at = ?, before_date = ?, before_answer = ?, revoke_at = ?, revoke_date = ?, revoke_answer = ?,
                   after_at = ?, after_date = ?, after_answer = ?, rounds = ?, failures = ?, standing = ?, verified_team = ?, due_at = ?, attempts = 0, claimed_by = NULL
             WHERE request = ? AND client = ? AND token_fingerprint = ?
            """,
            in: db
        ).run(
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
        try PreparedStatement(
            """
            INSERT INTO revocation_log (request, app, client_id, user_id, requested_at, token_granted_at, key_id,
                                        before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer,
                                        after_at, after_date, after_answer, settled_at, outcome, reason)
            VALUES (?, ?, ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?, ?)
            """,
            in: db
        ).run(
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
        try PreparedStatement("DELETE FROM revocation WHERE request = ? AND client = ? AND token_fingerprint = ?", in: db).run(
            work.request,
            directory.client(work.id.clientID).id,
            work.token.fingerprint
        )
        return try db.changed(
            cached: "DELETE FROM revocation_queue WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM revocation WHERE request = ?1)",
            [work.request]
        )
    }
}

extension RevocationProof {
    static let columns = """
        key_id, before_at, before_date, before_answer, revoke_at, revoke_date, revoke_answer, after_at, after_date, after_answer, rounds,
        failures
        """

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: PreparedStatement.Columns, from start: Int) {
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
        rounds = Int(row.integer(at: start + 10))
        failures = Int(row.integer(at: start + 11))
    }
}
