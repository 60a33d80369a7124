// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch? {
        let owner = ImportBatch.owner(of: batch.importID)
        let rows = try JSONText.encode(batch.signIns.map(ImportedRow.init))
        while true {
            do {
                return try await transaction { connection -> ToldBatch? in
                    let former = try connection.fetchOne("SELECT row_id FROM request_key WHERE client = $1 AND key = $2", owner, batch.key)
                    if let former { return ToldBatch(rows: [former.integer(at: 0)], isKnown: true) }
                    if let key = batch.after, try !connection.holdKey(key, of: owner) { return nil }
                    let known = try connection.knownCredentials(of: batch)
                    let told = try connection.fetchAll(
                        """
                        INSERT INTO grant_queue (client_id, user_id, refresh_token, granted_at, email, email_is_private)
                        SELECT \(ImportedRow.columns(connection.dialect)) RETURNING id, client_id, user_id
                        """,
                        rows
                    ).map { (id: $0.integer(at: 0), name: CredentialName($0, client: 1, user: 2)) }
                    let ids = told.map { $0.id }
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
                    let ledger = ImportLedger(rows: ids, known: told.filter { known.contains($0.name) }.map { $0.id })
                    try connection.keep(ledger, of: batch.importID, at: now)
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

    package func retoldSignIns(of told: ToldImport) async throws -> Int {
        let rows = try JSONText.encode(told.ledger.rows)
        return try await query { connection in
            let isOfImport = connection.dialect.isOne("grant_id", ofIntegers: "$1")
            return try connection.fetchInt("SELECT COUNT(*) FROM grant_log WHERE \(isOfImport) AND outcome = 'retold'", rows)
        }
    }
}

// MARK: What an undo reads

extension TableStore {
    package func toldImports() async throws -> [ToldImport] {
        try await query { connection in
            try connection.fetchAll(
                "SELECT client, row_id, digest, told_at FROM request_key WHERE \(isLedger(1)) ORDER BY client, row_id",
                ImportLedger.ownerPrefix
            ).map { row in
                ToldImport(
                    importID: String((row.text(at: 0) ?? "").dropFirst(ImportLedger.ownerPrefix.count)),
                    batch: row.integer(at: 1),
                    ledger: ImportLedger(row, at: 2),
                    toldAt: row.time(at: 3)
                )
            }
        }
    }

    package func importedUsers(of told: ToldImport) async throws -> [String] {
        let rows = try JSONText.encode(told.ledger.rows)
        return try await query { connection in try connection.importedNames(rows).compactMap { $0.userID } }
    }

    package func erasedSignIns() async throws -> Int64 {
        try await query { try $0.erasedSignIns() }
    }

    package func greatestID(of log: UserLog) async throws -> Int64 {
        try await query { try $0.fetchOne("SELECT MAX(id) FROM \(log.rawValue)")?.integer(at: 0) ?? 0 }
    }

    package func loggedUsers(in log: UserLog, after id: Int64, upTo limit: Int) async throws -> [LoggedUser] {
        let grant = log == .grants ? "grant_id" : "NULL"
        return try await query { connection in
            try connection.fetchAll("SELECT id, user_id, \(grant) FROM \(log.rawValue) WHERE id > $1 ORDER BY id LIMIT $2", id, limit).map {
                LoggedUser(id: $0.integer(at: 0), userID: $0.text(at: 1) ?? "", grantID: $0.isNull(at: 2) ? nil : $0.integer(at: 2))
            }
        }
    }

    /// Forgets which rows old imports wrote. From then on nobody can undo them.
    func forgetImports(before cutoff: Timestamp) async throws {
        try await transaction { connection in
            try connection.execute("DELETE FROM request_key WHERE told_at < $1 AND \(isLedger(2))", cutoff, ImportLedger.ownerPrefix)
        }
    }
}

/// SQL: whether a row of `request_key` is the ledger of an import.
///
/// - Parameter parameter: the number of the parameter that is `ImportLedger.ownerPrefix`.
func isLedger(_ parameter: Int) -> String { "substr(client, 1, \(ImportLedger.ownerPrefix.count)) = $\(parameter)" }

/// A user at a client by their bytes, as the tables compare them.
struct CredentialName: Hashable {
    let clientID: String
    /// Nil for a code that names nobody.
    let userID: String?
    private let bytes: [UInt8]

    init(clientID: String, userID: String?) {
        self.clientID = clientID
        self.userID = userID
        bytes = Array(clientID.utf8) + [0] + Array((userID ?? "").utf8)
    }

    init(_ row: some TableRow, client: Int, user: Int) {
        self.init(clientID: row.text(at: client) ?? "", userID: row.text(at: user))
    }

    static func == (left: CredentialName, right: CredentialName) -> Bool { left.bytes == right.bytes }

    func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension ImportLedger {
    /// Empty if the column holds something else.
    init(_ row: some TableRow, at column: Int) {
        self = JSONText.decode(String(decoding: row.bytes(at: column), as: UTF8.self)) ?? ImportLedger()
    }
}

extension TableConnection {
    /// The users and clients of rows of an import, wherever the rows are. In one statement, because the daemon moves rows.
    ///
    /// - Parameter rows: the ids in `grant_queue`, as JSON.
    func importedNames(_ rows: String) throws -> [CredentialName] {
        try fetchAll(
            """
            SELECT client_id, user_id FROM grant_queue WHERE \(dialect.isOne("id", ofIntegers: "$1"))
             UNION ALL
            SELECT client_id, user_id FROM grant_log WHERE \(dialect.isOne("grant_id", ofIntegers: "$1"))
            """,
            rows
        ).map { CredentialName($0, client: 0, user: 1) }
    }

    /// How many rows undos have erased from `grant_log`.
    func erasedSignIns() throws -> Int64 {
        Int64(try fetchInt("SELECT value FROM counter WHERE name = $1", ImportUndo.erasedCounter))
    }

    /// Keeps an undo from forgetting a key until the transaction ends. So the undo sees the rows of the transaction, or it prevents them.
    ///
    /// - Returns: false if the key is forgotten.
    fileprivate func holdKey(_ key: String, of owner: String) throws -> Bool {
        try fetchOne("SELECT row_id FROM request_key WHERE client = $1 AND key = $2 \(dialect.forUpdate)", owner, key) != nil
    }

    /// The credentials of a batch that the store has already.
    fileprivate func knownCredentials(of batch: ImportBatch) throws -> Set<CredentialName> {
        let users = try JSONText.encode(batch.signIns.compactMap(\.userID))
        let rows = try fetchAll(
            """
            SELECT client.client_id, c.user_id FROM credential c JOIN client ON client.id = c.client
             WHERE \(dialect.isOne("c.user_id", ofTexts: "$1"))
            """,
            users
        )
        return Set(rows.map { CredentialName($0, client: 0, user: 1) })
    }

    fileprivate func keep(_ ledger: ImportLedger, of importID: String, at now: Timestamp) throws {
        guard let last = ledger.rows.last else { return }
        try execute(
            "INSERT INTO request_key (client, key, digest, row_id, told_at) VALUES ($1, $2, $3, $4, $5)",
            ImportLedger.owner(of: importID),
            "\(last)",
            Array(try JSONText.encode(ledger).utf8),
            last,
            now
        )
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
