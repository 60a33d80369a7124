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
            try connection.execute("UPDATE app SET pending = 0, unverified = 0")
            // The lane settles these requests anew, and finds no token.
            try connection.execute(
                """
                UPDATE revocation_queue SET opened_at = NULL, due_at = 0, \(sql: Claim.end)
                 WHERE id IN (SELECT request FROM revocation)
                """
            )
            try connection.execute("DELETE FROM revocation")
            // Their proofs came from the lost key. siwatch fetches them at its start.
            try connection.execute("DELETE FROM signing_key")
            try connection.execute("DELETE FROM counter WHERE name >= 'seal' AND name < 'seam'")
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
