// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// Users with everything that the store keeps about them, in `user_event` and `credential`.
struct UserTable {
    let db: Database
    let directory: ClientDirectory

    private static let users = SavedRows(of: "user_event", key: AppUser.keyColumns, values: AppUser.valueColumns)
    private static let credentials = SavedRows(
        of: "credential",
        key: CredentialRecord.keyColumns,
        values: CredentialRecord.valueColumns
    )
    private static let userColumns = AppUser.valueColumns.joined(separator: ", ")
    private static let credentialColumns = CredentialRecord.columnNames.joined(separator: ", ")

    func load(_ ids: [AppUserID]) throws -> [AppUserID: UserRecord] {
        var users: [AppUserID: UserRecord] = [:]
        guard !ids.isEmpty else { return users }
        users.reserveCapacity(ids.count)
        let user = try PreparedStatement("SELECT \(Self.userColumns) FROM user_event WHERE user_id = ? AND app = ?", in: db)
        let credentials = try PreparedStatement(
            "SELECT client, app, \(Self.credentialColumns) FROM credential WHERE user_id = ?",
            in: db
        )
        for id in ids {
            let app = directory.app(id.app).id
            let stored = try user.first(id.userID, app) { AppUser($0, from: 0) }
            var held: [(clientID: String, record: CredentialRecord)] = []
            try credentials.forEachRow(id.userID) { columns in
                guard columns.integer(at: 1) == app, let client = directory.clientsByID[columns.integer(at: 0)] else { return }
                held.append((client.clientID, CredentialRecord(columns, from: 2)))
            }
            users[id] = UserRecord(id, stored: stored, credentials: held)
        }
        return users
    }

    /// Writes the changes of users.
    ///
    /// - Returns: whether it erased a sealed token or an address.
    func save(_ users: [UserRecord]) throws -> Bool {
        guard !users.isEmpty else { return false }
        let insertUser = try PreparedStatement(Self.users.insert, in: db)
        let updateUser = try PreparedStatement(Self.users.update, in: db)
        let insertCredential = try PreparedStatement(Self.credentials.insert, in: db)
        let updateCredential = try PreparedStatement(Self.credentials.update, in: db)
        var hasErased = false
        for user in users {
            let app = directory.app(user.id.app).id
            if user.areRegistersChanged {
                try (user.stored == nil ? insertUser : updateUser).run(user.registers.values(user: user.id.userID, app: app))
                if user.registers.mailbox == nil, user.stored?.mailbox != nil { hasErased = true }
            }
            for holding in user.holdings where holding.isChanged {
                guard let standing = holding.standing else { preconditionFailure("a credential has changed and was not published") }
                let save = holding.stored == nil ? insertCredential : updateCredential
                try save.run(
                    holding.record.values(user: user.id.userID, client: directory.client(holding.clientID), standing: standing)
                )
                let (old, new) = (holding.stored?.credential, holding.record.credential)
                if let sealed = old?.token?.sealed, sealed != new.token?.sealed { hasErased = true }
                if let sealed = old?.formerToken?.sealed, sealed != new.formerToken?.sealed { hasErased = true }
            }
        }
        return hasErased
    }
}
