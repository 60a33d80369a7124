// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A table with sealed bytes, which is walked in the order of its primary key.
struct SealedTable: Sendable {
    let name: String
    let key: [KeyColumn]
    /// SQL: the user and the client of a row, or its name and anything.
    let owner: String
    /// The columns of sealed bytes, each with that of the time that they were sealed for.
    let sealed: [(column: String, grantedAt: String)]

    struct KeyColumn: Sendable {
        let column: String
        /// No row has it, and no row comes before it.
        let least: ColumnValue
    }

    /// Those that siwatch has sealed. The secret comes first, so that nobody starts with the old key alone, which opens no newer token. A
    /// request to revoke copies tokens from `credential` to `revocation`, so a copy stands behind the walk only if it was sealed anew.
    static let own = [secret, credential, revocation]

    static let credential = SealedTable(
        name: "credential",
        key: [KeyColumn(column: "user_id", least: .text("")), KeyColumn(column: "client", least: .integer(0))],
        owner: "user_id, client",
        sealed: [("sealed_token", "token_granted_at"), ("former_sealed", "former_granted_at")]
    )
    private static let revocation = SealedTable(
        name: "revocation",
        key: [
            KeyColumn(column: "request", least: .integer(0)), KeyColumn(column: "client", least: .integer(0)),
            KeyColumn(column: "token_fingerprint", least: .bytes([])),
        ],
        owner: "user_id, client",
        sealed: [("sealed_token", "token_granted_at")]
    )
    private static let secret = SealedTable(
        name: "secret",
        key: [KeyColumn(column: "name", least: .text(""))],
        owner: "name, 0",
        sealed: [("sealed", "0")]
    )
    /// What backends have sealed.
    static let queue = SealedTable(
        name: "grant_queue",
        key: [KeyColumn(column: "id", least: .integer(0))],
        owner: "user_id, 0",
        sealed: [("token_sealed", "granted_at")]
    )

    var start: [ColumnValue] { key.map(\.least) }
    private var names: [String] { key.map(\.column) }
    private var keySQL: String { names.joined(separator: ", ") }

    struct Row: Sendable {
        var key: [ColumnValue]
        var userID: String
        var client: Int64
        var sealed: [(bytes: [UInt8]?, grantedAt: Timestamp)]
    }

    func rows(after last: [ColumnValue], upTo limit: Int, on connection: some TableConnection) throws -> [Row] {
        let columns = sealed.map { "\($0.column), \($0.grantedAt)" }.joined(separator: ", ")
        return try connection.fetchAll(
            """
            SELECT \(sql: keySQL), \(sql: owner), \(sql: columns) FROM \(sql: name)
             WHERE (\(sql: keySQL)) > (\(values: last)) ORDER BY \(sql: keySQL) LIMIT \(limit)
            """
        ).map { row in
            Row(
                key: keyValues(of: row),
                userID: row[key.count],
                client: row[key.count + 1],
                sealed: sealed.indices.map { (bytes: row[key.count + 2 + 2 * $0], grantedAt: row[key.count + 3 + 2 * $0]) }
            )
        }
    }

    private func keyValues(of row: some TableRow) -> [ColumnValue] {
        key.enumerated().map { index, part in
            switch part.least {
            case .text: .text(row.text(at: index))
            case .bytes: .bytes(row.bytes(at: index))
            case .integer, .boolean, .array: .integer(row.integer(at: index))
            }
        }
    }

    /// Nil for a client that is unknown.
    func blob(_ bytes: [UInt8], of row: Row, grantedAt: Timestamp, in directory: ClientDirectory) -> SealedBlob? {
        if name == Self.secret.name { return .secret(bytes, named: row.userID) }
        guard let client = directory.clientsByID[row.client] else { return nil }
        let credential = CredentialID(clientID: client.clientID, userID: row.userID)
        return .token(SealedToken(bytes: bytes), of: credential, grantedAt: grantedAt)
    }

    /// Puts new bytes in the place of those that still stand there. A server leaves out rows that somebody has locked, and waits for none.
    func exchange(_ column: String) -> RowStatement {
        let isSame = names.map { "t.\($0) = @\($0)" }.joined(separator: " AND ")
        return RowStatement(
            names + ["old_bytes", "new_bytes"],
            sqlite: "UPDATE \(name) AS t SET \(column) = @new_bytes WHERE \(isSame) AND t.\(column) = @old_bytes RETURNING 1",
            postgres: """
                WITH free AS (
                  SELECT \(names.map { "t.\($0)" }.joined(separator: ", ")), n.new_bytes, n.place
                    FROM @places JOIN \(name) t ON \(isSame) AND t.\(column) = @old_bytes
                   ORDER BY \(names.map { "t.\($0)" }.joined(separator: ", ")) FOR UPDATE OF t SKIP LOCKED)
                UPDATE \(name) t SET \(column) = free.new_bytes
                  FROM free WHERE \(names.map { "t.\($0) = free.\($0)" }.joined(separator: " AND "))
                RETURNING free.place
                """
        )
    }

    /// Where a portion ends; nil if the rest is no longer than a portion.
    func end(of limit: Int, after last: [ColumnValue], on connection: some TableConnection) throws -> [ColumnValue]? {
        let end = try connection.fetchOne(
            """
            SELECT \(sql: keySQL) FROM \(sql: name) WHERE (\(sql: keySQL)) > (\(values: last))
             ORDER BY \(sql: keySQL) LIMIT 1 OFFSET \(limit - 1)
            """
        ).map(keyValues(of:))
        // Text that is no UTF-8 may never come to an end.
        return end == last ? nil : end
    }

    /// SQL: which rows are in a portion.
    func isBetween(_ last: [ColumnValue], _ end: [ColumnValue]?) -> SQL {
        let start: SQL = "(\(sql: keySQL)) > (\(values: last))"
        guard let end else { return start }
        return "\(start) AND (\(sql: keySQL)) <= (\(values: end))"
    }

    /// The id of a key follows the version, in both forms of sealed bytes.
    static func keyID(of sealed: [UInt8]) -> String { sealed.dropFirst().prefix(4).map(\.hexadecimal).joined() }

    /// How many values of a portion each key has sealed, by the bytes of `keyID(of:)`.
    func count(where isInPortion: SQL, on connection: some TableConnection) throws -> [String: Int] {
        try sealed.reduce(into: [:]) { counts, sealed in
            let rows = try connection.fetchAll(
                """
                SELECT substr(\(sql: sealed.column), 2, 4), COUNT(*) FROM \(sql: name)
                 WHERE \(isInPortion) AND \(sql: sealed.column) IS NOT NULL GROUP BY substr(\(sql: sealed.column), 2, 4)
                """
            )
            for row in rows { counts[row.bytes(at: 0).map(\.hexadecimal).joined(), default: 0] += row.int(at: 1) }
        }
    }
}
