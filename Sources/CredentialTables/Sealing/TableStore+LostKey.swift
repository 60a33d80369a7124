// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension TableStore {
    /// In portions, so that a server ends no statement for its length. The key comes last: until then the command can be repeated.
    package func abandonTokens(fingerprintKey: [UInt8]) async throws -> Int {
        var given = 0
        var place: [ColumnValue]? = SealedTable.credential.start
        while let last = place {
            try Task.checkCancellation()
            let (tokens, end) = try await transaction { connection in
                let end = try SealedTable.credential.end(of: 2_000, after: last, on: connection)
                return (try connection.abandonTokens(where: SealedTable.credential.isBetween(last, end)), end)
            }
            given += tokens
            place = end
        }
        try await transaction { connection in
            try connection.lockSettlements()
            // Nothing proves any more what an operator has decided: pauses end, and breakers and revocation limits begin anew.
            try connection.execute(
                """
                UPDATE app SET pending = 0, unverified = 0, paused_at = NULL, paused_proof = NULL, revocation_hour_at = NULL,
                               revocations_opened = 0, revocations_held_at = NULL, revocations_held = 0, revocations_proof = NULL
                """
            )
            let forgotten: SQL = connection.dialect.words(
                sqlite: "DELETE FROM breaker",
                postgres: "UPDATE breaker SET state = NULL, proof = NULL"
            )
            try connection.execute(forgotten)
            // The lane settles requests anew, and finds no token.
            try connection.execute(
                """
                UPDATE revocation_queue
                   SET opened_at = NULL, held_at = NULL, confirmed_at = NULL, confirmed_proof = NULL, due_at = 0, \(sql: Claim.end)
                 WHERE held_at IS NOT NULL OR confirmed_at IS NOT NULL OR id IN (SELECT request FROM revocation)
                """
            )
            try connection.execute("DELETE FROM revocation")
            // Nothing may seem planted. A receipt without the time of its token counts without a proof.
            try connection.execute("UPDATE revocation_log SET token_granted_at = NULL, proof = NULL WHERE token_granted_at IS NOT NULL")
            try connection.execute("DELETE FROM operator_request WHERE answer IS NULL")
            try connection.execute("UPDATE operator_request SET position = NULL, proof = NULL WHERE position IS NOT NULL")
            // Their proofs came from the lost key. siwatch fetches them at its start.
            try connection.execute("DELETE FROM signing_key")
            try connection.execute("DELETE FROM counter WHERE name >= 'sealed' AND name < 'sealee'")
            // The fingerprint key is the only secret.
            try connection.execute("UPDATE secret SET sealed = \(fingerprintKey)")
        }
        tokenWasErased()
        return given
    }
}

extension TableConnection {
    /// The registers keep the times of the tokens, because states follow from them. Nothing can recognise the tokens any more: told again
    /// with the same time, a token counts as new, unless Apple's rejection of it has ended its sign-in.
    fileprivate func abandonTokens(where isInPortion: SQL) throws -> Int {
        let unknown = [UInt8]()
        let greatest = [UInt8](repeating: .max, count: 32)
        let tokens = try fetchInt("SELECT COUNT(sealed_token) + COUNT(former_sealed) FROM credential WHERE \(isInPortion)")
        try execute(
            """
            UPDATE credential
               SET sealed_token = NULL, due_at = NULL, first_check = NULL, failures = 0, unverified = \(false),
                   \(sql: PendingRejection.drop), \(sql: Claim.end),
                   token_fingerprint = CASE WHEN reason = 'token_rejected' THEN \(greatest) ELSE \(unknown) END,
                   former_sealed = NULL, former_granted_at = NULL, former_fingerprint = NULL, former_verified_at = NULL,
                   former_verified_team = NULL, older_tokens = NULL
             WHERE \(isInPortion) AND token_fingerprint IS NOT NULL
            """
        )
        return tokens
    }
}
