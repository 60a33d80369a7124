// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch? {
        let owner = ImportBatch.owner(of: batch.importID)
        let rows = try JSONText.encode(batch.signIns.map(ImportedRow.init))
        do {
            return try await transaction { connection in
                let id = try connection.lockImport(batch.importID, at: now)
                if let known = try connection.fetchOne("SELECT digest FROM request_key WHERE client = $1 AND key = $2", owner, batch.key) {
                    return ToldBatch(rows: JSONText.decode(String(decoding: known.bytes(at: 0), as: UTF8.self)) ?? [], isKnown: true)
                }
                if let key = batch.after, try !connection.exists("SELECT 1 FROM request_key WHERE client = $1 AND key = $2", owner, key) {
                    throw KeyForgotten()
                }
                let ids = try connection.fetchAll(
                    """
                    INSERT INTO grant_queue (import_id, client_id, user_id, refresh_token, granted_at, email, email_is_private)
                    SELECT CAST($2 AS BIGINT), \(ImportedRow.columns(connection.dialect)) RETURNING id
                    """,
                    rows,
                    id
                ).map { $0.integer(at: 0) }
                try connection.execute(
                    "INSERT INTO request_key (client, key, digest, row_id, told_at) VALUES ($1, $2, $3, $4, $5)",
                    owner,
                    batch.key,
                    // The key is a digest already, so this column holds the rows.
                    Array(try JSONText.encode(ids).utf8),
                    ids.max() ?? 0,
                    now
                )
                try connection.execute(
                    """
                    UPDATE import SET told = told + $2, told_from = CASE WHEN told = 0 THEN $3 ELSE told_from END, told_to = $3
                     WHERE id = $1
                    """,
                    id,
                    ids.count,
                    now
                )
                return ToldBatch(rows: ids, isKnown: false)
            }
        } catch is KeyForgotten {
            return nil
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

    package func retoldSignIns(among rows: [Int64]) async throws -> Int {
        let rows = try JSONText.encode(rows)
        return try await query { connection in
            let isAsked = connection.dialect.isOne("grant_id", ofIntegers: "$1")
            return try connection.fetchInt("SELECT COUNT(*) FROM grant_log WHERE \(isAsked) AND outcome = 'retold'", rows)
        }
    }

    package func toldImports() async throws -> [ToldImport] {
        try await query { connection in
            try connection.fetchValues(
                "SELECT name AS import_id, told AS sign_ins, told_from AS \"from\", told_to AS \"to\" FROM import ORDER BY name"
            )
        }
    }

    package func rehearseUndo(of importID: String, at now: Timestamp) async throws -> UndoneImport {
        try await query { try ImportErasure(connection: $0, importID: importID, now: now).rehearse() }
    }
}

/// An undo has forgotten the keys of the import.
private struct KeyForgotten: Error {}

extension TableConnection {
    /// Locks the row of an import, and makes it first if it is missing. Until the transaction ends, other batches of the import and its undo
    /// wait.
    ///
    /// - Returns: the id of the import.
    fileprivate func lockImport(_ name: String, at now: Timestamp) throws -> Int64 {
        try fetchOne(
            """
            INSERT INTO import (name, told, told_from, told_to) VALUES ($1, 0, $2, $2)
                ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id
            """,
            name,
            now
        )?.integer(at: 0) ?? 0
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
