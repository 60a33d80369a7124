// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch? {
        let owner = ImportBatch.owner(of: batch.importID)
        let rows = try JSONText.encode(batch.signIns.map(ImportedRow.init))
        do {
            return try await transaction { connection in
                // Until the transaction ends, other batches of the import and its undo wait.
                let id = try connection.insert(
                    """
                    import (name, told, told_from, told_to) VALUES (\(batch.importID), 0, \(now), \(now))
                        ON CONFLICT (name) DO UPDATE SET name = excluded.name
                    """
                )
                if let known = try connection.fetchOne("SELECT digest FROM request_key WHERE client = \(owner) AND key = \(batch.key)") {
                    return ToldBatch(rows: JSONText.decode(String(decoding: known.bytes(at: 0), as: UTF8.self)) ?? [], isKnown: true)
                }
                if let key = batch.after, try !connection.exists("SELECT 1 FROM request_key WHERE client = \(owner) AND key = \(key)") {
                    throw KeyForgotten()
                }
                let ids = try connection.fetchAll(
                    """
                    INSERT INTO grant_queue (import_id, client_id, user_id, refresh_token, granted_at, email, email_is_private)
                    SELECT CAST(\(id) AS BIGINT), \(ImportedRow.columns(of: rows, connection.dialect)) RETURNING id
                    """
                ).map { $0.integer(at: 0) }
                // The key is a digest already, so this column holds the rows.
                let kept = Array(try JSONText.encode(ids).utf8)
                try connection.execute(
                    """
                    INSERT INTO request_key (client, key, digest, row_id, told_at)
                    VALUES (\(owner), \(batch.key), \(kept), \(ids.max() ?? 0), \(now))
                    """
                )
                try connection.execute(
                    """
                    UPDATE import SET told = told + \(ids.count), told_from = CASE WHEN told = 0 THEN \(now) ELSE told_from END,
                                      told_to = \(now)
                     WHERE id = \(id)
                    """
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
                     WHERE c.user_id = \(credential.userID) AND client.client_id = \(credential.clientID) AND c.sealed_token IS NOT NULL
                    """
                ).map { row in
                    let answer = row.text(at: 1).flatMap(TokenAnswer.init(rawValue:))
                    return ImportedToken(grantedAt: row[0], answer: answer, hasFailed: row.int(at: 2) > 0)
                }
            }
        }
    }

    package func retoldSignIns(among rows: [Int64]) async throws -> Int {
        try await query { connection in
            let isAsked = try connection.dialect.isOne("grant_id", of: rows)
            return try connection.count("SELECT 1 FROM grant_log WHERE \(isAsked) AND outcome = \(GrantLogOutcome.retold.rawValue)")
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
        try await query { [decisions] in
            try ImportErasure(connection: $0, decisions: decisions, importID: importID, now: now).rehearse()
        }
    }
}

/// An undo has forgotten the keys of the import.
private struct KeyForgotten: Error {}

/// A sign-in as an element of the JSON array that one statement inserts.
struct ImportedRow: Encodable {
    private let client: String
    private let user, email: String?
    private var token: String?
    private let at: Int64?
    private let isPrivate: Int?

    init(_ signIn: ToldSignIn) {
        client = signIn.clientID
        user = signIn.userID
        if case .refreshToken(let secret) = signIn.proof { token = secret.reveal }
        at = signIn.signedInAt?.milliseconds
        email = signIn.address?.text
        isPrivate = signIn.address?.isPrivate.map { $0 ? 1 : 0 }
    }

    /// SQL: the columns of the rows in a JSON array, and where they come from.
    static func columns(of rows: String, _ dialect: Dialect) -> SQL {
        switch dialect {
        case .sqlite:
            """
            json_extract(value, '$.client'), json_extract(value, '$.user'), json_extract(value, '$.token'), json_extract(value, '$.at'),
            json_extract(value, '$.email'), json_extract(value, '$.isPrivate') FROM json_each(\(rows))
            """
        case .postgres:
            """
            value ->> 'client', value ->> 'user', value ->> 'token', (value ->> 'at')::bigint, value ->> 'email',
            (value ->> 'isPrivate')::integer FROM json_array_elements(\(rows)::json)
            """
        }
    }
}
