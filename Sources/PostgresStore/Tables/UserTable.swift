// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// Users with everything that the store keeps about them, in `user_event` and `credential`.
struct UserTable {
    let connection: Connection
    let directory: ClientDirectory

    private static let users = BulkStatements(of: "user_event", key: AppUser.keyColumns, values: AppUser.valueColumns)
    private static let credentials = BulkStatements(
        of: "credential",
        key: CredentialRecord.keyColumns,
        values: CredentialRecord.valueColumns
    )
    private static let userColumns = AppUser.valueColumns.map { "u.\($0)" }.joined(separator: ", ")
    private static let credentialColumns = CredentialRecord.columnNames.map { "c.\($0)" }.joined(separator: ", ")

    /// The answers to `sendLock` that are still to be read.
    struct Answer {
        fileprivate var users, credentials: Connection.Answer?
    }

    /// Asks for users, and locks them and their credentials until the transaction ends.
    ///
    /// Each user gets a row first. Otherwise, of two first facts about one user, the second could not lock a row that does not exist yet,
    /// and one fact would be lost.
    func sendLock(_ ids: [AppUserID]) throws -> Answer {
        var keys = RowArrays()
        for id in ids { keys.append(id.userID, directory.app(id.app).id) }
        guard keys.count > 0 else { return Answer() }
        try connection.send(
            """
            INSERT INTO user_event (user_id, app) SELECT k.user_id, k.app FROM unnest($1, $2) AS k (user_id, app)
             ORDER BY k.user_id COLLATE "C", k.app
                ON CONFLICT DO NOTHING
            """,
            keys
        )
        return Answer(
            users: try connection.send(
                """
                SELECT u.user_id, u.app, \(Self.userColumns)
                  FROM unnest($1, $2) AS k (user_id, app) JOIN user_event u ON u.user_id = k.user_id AND u.app = k.app
                 ORDER BY u.user_id, u.app FOR UPDATE OF u
                """,
                keys.parameters
            ),
            credentials: try connection.send(
                """
                SELECT c.user_id, c.app, c.client, \(Self.credentialColumns)
                  FROM unnest($1, $2) AS k (user_id, app) JOIN credential c ON c.user_id = k.user_id AND c.app = k.app
                 ORDER BY c.user_id, c.client FOR UPDATE OF c
                """,
                keys.parameters
            )
        )
    }

    func users(_ answer: Answer) throws -> [AppUserID: UserRecord] {
        guard let users = answer.users, let credentials = answer.credentials else { return [:] }
        let names = Dictionary(uniqueKeysWithValues: directory.apps.values.map { ($0.id, $0.name) })
        func id(_ row: PostgresRow) -> AppUserID? {
            names[row.integer(at: 1)].map { AppUserID(app: $0, userID: row.text(at: 0) ?? "") }
        }
        var held: [AppUserID: [(clientID: String, record: CredentialRecord)]] = [:]
        try connection.rows(of: credentials).forEach { row in
            guard let id = id(row), let client = directory.clientsByID[row.integer(at: 2)] else { return }
            held[id, default: []].append((client.clientID, CredentialRecord(row, from: 3)))
        }
        var records: [AppUserID: UserRecord] = [:]
        try connection.rows(of: users).forEach { row in
            guard let id = id(row) else { return }
            records[id] = UserRecord(id, stored: AppUser(row, from: 2), credentials: held[id] ?? [])
        }
        return records
    }

    func sendSave(_ users: [UserRecord]) throws {
        var (registers, new, changed) = (RowArrays(), RowArrays(), RowArrays())
        for user in users {
            if user.areRegistersChanged {
                registers.append(user.registers.values(user: user.id.userID, app: directory.app(user.id.app).id))
            }
            for holding in user.holdings where holding.isChanged {
                guard let standing = holding.standing else { preconditionFailure("a credential has changed and was not published") }
                let client = directory.client(holding.clientID)
                let values = holding.record.values(user: user.id.userID, client: client, standing: standing)
                if holding.stored == nil { new.append(values) } else { changed.append(values) }
            }
        }
        try connection.send(Self.users.update, registers)
        try connection.send(Self.credentials.insert, new)
        try connection.send(Self.credentials.update, changed)
    }

    /// Removes the empty rows that `sendLock` made for unknown users. A forgotten user is unknown.
    func sendRemoveEmpty(_ users: [UserRecord]) throws {
        var keys = RowArrays()
        for user in users where user.holdings.isEmpty && user.registers == AppUser() {
            keys.append(user.id.userID, directory.app(user.id.app).id)
        }
        try connection.send(
            """
            DELETE FROM user_event u USING unnest($1, $2) AS k (user_id, app)
             WHERE u.user_id = k.user_id AND u.app = k.app
               AND COALESCE(u.consent_revoked_at, u.deleted_at, u.revoked_at, u.email_at, u.forwarding_at) IS NULL
               AND NOT EXISTS (SELECT 1 FROM credential c WHERE c.user_id = u.user_id AND c.app = u.app)
            """,
            keys
        )
    }
}
