// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch {
        let owner = ImportBatch.owner(of: batch.importID)
        let rows = try JSONText.encode(batch.signIns.map(ImportedRow.init))
        while true {
            do {
                return try await transaction { connection -> ToldBatch in
                    let known = try connection.fetchOne("SELECT row_id FROM request_key WHERE client = $1 AND key = $2", owner, batch.key)
                    if let known { return ToldBatch(rows: [known.integer(at: 0)], isKnown: true) }
                    let ids = try connection.fetchAll(
                        """
                        INSERT INTO grant_queue (client_id, user_id, refresh_token, granted_at, email, email_is_private)
                        SELECT \(ImportedRow.columns(connection.dialect)) RETURNING id
                        """,
                        rows
                    ).map { $0.integer(at: 0) }
                    let isNew = try connection.change(
                        """
                        INSERT INTO request_key (client, key, digest, row_id, told_at) VALUES ($1, $2, $3, $4, $5)
                            ON CONFLICT DO NOTHING
                        """,
                        owner,
                        batch.key,
                        // The key is the digest.
                        Array(batch.key.utf8),
                        ids.max() ?? 0,
                        now
                    )
                    guard isNew == 1 else { throw KeyTaken() }
                    return ToldBatch(rows: ids, isKnown: false)
                }
            } catch is KeyTaken {
                // Another run of the import has committed the batch, so the next try finds its key.
            }
        }
    }

    package func importedTokens(of credentials: [CredentialID]) async throws -> [ImportedToken?] {
        try await query { connection -> [ImportedToken?] in
            try credentials.map { credential -> ImportedToken? in
                try connection.fetchOne(
                    """
                    SELECT c.token_granted_at, c.answer, c.failures FROM credential c JOIN client ON client.id = c.client
                     WHERE c.user_id = $1 AND client.client_id = $2 AND c.sealed_token IS NOT NULL
                    """,
                    credential.userID,
                    credential.clientID
                ).map { row in
                    ImportedToken(
                        grantedAt: row.time(at: 0),
                        answer: row.text(at: 1).flatMap(TokenAnswer.init(rawValue:)),
                        hasFailed: row.int(at: 2) > 0
                    )
                }
            }
        }
    }
}

/// A sign-in as an element of the JSON array that one statement inserts.
struct ImportedRow: Encodable {
    private var client: String
    private var user: String?
    private var token: String?
    private var at: Int64?
    private var email: String?
    private var isPrivate: Int?

    init(_ signIn: ToldSignIn) {
        client = signIn.clientID
        user = signIn.userID
        if case .refreshToken(let secret) = signIn.proof { token = secret.reveal }
        at = signIn.signedInAt?.milliseconds
        email = signIn.address?.text
        isPrivate = signIn.address?.isPrivate.map { $0 ? 1 : 0 }
    }

    /// SQL: the columns of the rows in the JSON array `$1`, and where they come from.
    static func columns(_ dialect: Dialect) -> String {
        switch dialect {
        case .sqlite:
            ["client", "user", "token", "at", "email", "isPrivate"].map { "json_extract(value, '$.\($0)')" }.joined(separator: ", ")
                + " FROM json_each($1)"
        case .postgres:
            """
            value ->> 'client', value ->> 'user', value ->> 'token', (value ->> 'at')::bigint, value ->> 'email',
            (value ->> 'isPrivate')::integer FROM json_array_elements($1::json)
            """
        }
    }
}
