// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Users with everything that the store keeps about them, in `user_event` and `credential`.
struct UserRows<Connection: TableConnection> {
    let connection: Connection
    let directory: ClientDirectory

    struct Asked {
        fileprivate var ids: [AppUserID]
        fileprivate var users, credentials: Connection.Answer?
    }

    /// Asks for users. A server locks them and their credentials until the transaction ends.
    func ask(for ids: [AppUserID]) throws -> Asked {
        let keys = ids.map(key(of:))
        try connection.execute(.makeLockableUsers, keys)
        return Asked(ids: ids, users: try connection.ask(.readUsers, keys), credentials: try connection.ask(.readCredentials, keys))
    }

    func read(_ asked: Asked) throws -> [AppUserID: UserRecord] {
        var stored = [AppUser?](repeating: nil, count: asked.ids.count)
        try connection.forEachRow(of: asked.users) { place, row in stored[place] = AppUser(row, from: 0) }
        var held = [[(clientID: String, record: CredentialRecord)]](repeating: [], count: asked.ids.count)
        try connection.forEachRow(of: asked.credentials) { place, row in
            guard let client = directory.clientsByID[row.integer(at: 0)] else { return }
            held[place].append((client.clientID, CredentialRecord(row, from: 1)))
        }
        var users: [AppUserID: UserRecord] = [:]
        users.reserveCapacity(asked.ids.count)
        for (place, id) in asked.ids.enumerated() {
            // On a server each user has a row. Without one, siwatch has forgotten the user while this waited for the lock.
            guard stored[place] != nil || connection.dialect == .sqlite else { continue }
            users[id] = UserRecord(id, stored: stored[place], credentials: held[place])
        }
        return users
    }

    /// - Returns: whether it erased a sealed token or an address.
    func save(_ users: [UserRecord]) throws -> Bool {
        var (newUsers, changedUsers) = ([[ColumnValue]](), [[ColumnValue]]())
        var (newCredentials, changedCredentials) = ([[ColumnValue]](), [[ColumnValue]]())
        var hasErased = false
        for user in users {
            if user.areRegistersChanged {
                let values = user.registers.values(user: user.id.userID, app: directory.app(user.id.app).id)
                if user.stored == nil { newUsers.append(values) } else { changedUsers.append(values) }
                if user.registers.mailbox == nil, user.stored?.mailbox != nil { hasErased = true }
            }
            for holding in user.holdings where holding.isChanged {
                guard let standing = holding.standing else { preconditionFailure("a credential has changed and was not published") }
                let client = directory.client(holding.clientID)
                let values = holding.record.values(user: user.id.userID, client: client, standing: standing)
                if holding.stored == nil { newCredentials.append(values) } else { changedCredentials.append(values) }
                let (old, new) = (holding.stored?.credential, holding.record.credential)
                if let sealed = old?.token?.sealed, sealed != new.token?.sealed { hasErased = true }
                if let sealed = old?.formerToken?.sealed, sealed != new.formerToken?.sealed { hasErased = true }
            }
        }
        try connection.execute(.insertUsers, newUsers)
        try connection.execute(.updateUsers, changedUsers)
        try connection.execute(.insertCredentials, newCredentials)
        try connection.execute(.updateCredentials, changedCredentials)
        return hasErased
    }

    /// Removes the rows that `ask` made for unknown users. A forgotten user is unknown.
    func removeEmpty(_ users: [UserRecord]) throws {
        let empty = users.filter { $0.stored != nil && $0.holdings.isEmpty && $0.registers == AppUser() }
        try connection.execute(.deleteEmptyUsers, empty.map { key(of: $0.id) })
    }

    private func key(of user: AppUserID) -> [ColumnValue] { bound(user.userID, directory.app(user.app).id) }
}

extension RowStatement {
    /// Otherwise, of two first facts about one user, the second could not lock a row that does not exist yet, and one fact would be lost.
    fileprivate static let makeLockableUsers = RowStatement(
        AppUser.keyColumns,
        sqlite: "",
        postgres: """
            INSERT INTO user_event (user_id, app) SELECT @user_id, @app FROM @rows ORDER BY @user_id COLLATE "C", @app
                ON CONFLICT DO NOTHING
            """
    )
    fileprivate static let readUsers = read(
        "t.\(AppUser.valueColumns.joined(separator: ", t."))",
        of: "user_event",
        key: AppUser.keyColumns,
        lockedBy: "t.user_id, t.app"
    )
    fileprivate static let readCredentials = read(
        "t.client, t.\(CredentialRecord.columnNames.joined(separator: ", t."))",
        of: "credential",
        key: AppUser.keyColumns,
        lockedBy: "t.user_id, t.client"
    )
    fileprivate static let insertUsers = insert(into: "user_event", AppUser.keyColumns + AppUser.valueColumns)
    fileprivate static let updateUsers = update("user_event", key: AppUser.keyColumns, AppUser.valueColumns)
    fileprivate static let insertCredentials = insert(into: "credential", CredentialRecord.keyColumns + CredentialRecord.valueColumns)
    fileprivate static let updateCredentials = update("credential", key: CredentialRecord.keyColumns, CredentialRecord.valueColumns)
    fileprivate static let deleteEmptyUsers = delete(
        from: "user_event",
        key: AppUser.keyColumns,
        where: """
            NOT (\(StoredTable.userEvent.condition))
            AND NOT EXISTS (SELECT 1 FROM credential c WHERE c.user_id = t.user_id AND c.app = t.app)
            """
    )
}

extension TableConnection {
    /// Loads users with everything that the store keeps about them. No other transaction changes them until this one ends.
    func users(_ ids: [AppUserID], in directory: ClientDirectory) throws -> [AppUserID: UserRecord] {
        let rows = UserRows(connection: self, directory: directory)
        return try rows.read(rows.ask(for: ids))
    }

    func save(_ users: [UserRecord], tallies: [String: UserRecord.Tally], in directory: ClientDirectory) throws {
        _ = try UserRows(connection: self, directory: directory).save(users)
        try lockSettlements()
        try add(tallies, in: directory)
    }
}

/// The columns of `user_event`, which holds a user's registers, in the order of the table.
extension AppUser {
    static let keyColumns = Array(StoredTable.userEvent.columnNames[..<2])
    static let valueColumns = Array(StoredTable.userEvent.columnNames[2...])

    init(_ row: some TableRow, from start: Int) {
        self.init()
        consentRevokedAt = row.time(at: start)
        deletedAt = row.time(at: start + 1)
        revokedAt = row.time(at: start + 2)
        if let at = row.time(at: start + 3), let rank = Mailbox.Rank(rawValue: row.int(at: start + 4)) {
            mailbox = Mailbox(at: at, rank: rank, address: EmailAddress(row[start + 5], isPrivate: row[start + 6]))
        }
        if let at = row.time(at: start + 7), let status = row.text(at: start + 8).flatMap(Forwarding.Status.init) {
            forwarding = Forwarding(at: at, status: status)
        }
    }

    func values(user userID: String, app: Int64) -> [ColumnValue] {
        [
            userID.columnValue,
            app.columnValue,
            consentRevokedAt.columnValue,
            deletedAt.columnValue,
            revokedAt.columnValue,
            mailbox?.at.columnValue ?? Timestamp.null,
            mailbox?.rank.rawValue.columnValue ?? Int.null,
            mailbox?.address.text.columnValue ?? String.null,
            (mailbox?.address.isPrivate.map { $0 ? 1 : 0 }).columnValue,
            forwarding?.at.columnValue ?? Timestamp.null,
            forwarding?.status.rawValue.columnValue ?? String.null,
        ]
    }
}

/// What is kept of a forgotten user: a row of `user_event` with the pseudonym for its `user_id` and a time for `deleted_at`.
extension TableConnection {
    /// Keeps the time of the newest known fact, so that no older fact brings the user back, and returns it; nil if nothing was known.
    @discardableResult
    func remember(_ user: UserRecord, as pseudonym: String, in directory: ClientDirectory) throws -> Timestamp? {
        guard let newest = user.newestFact else { return nil }
        try execute(
            """
            INSERT INTO user_event AS u (user_id, app, deleted_at) VALUES (\(pseudonym), \(directory.app(user.id.app).id), \(newest))
                ON CONFLICT (user_id, app) DO UPDATE SET deleted_at = \(dialect.greatest)(u.deleted_at, excluded.deleted_at)
            """
        )
        return newest
    }

    func uncount(_ users: [UserRecord], in directory: ClientDirectory, _ decisions: DecisionBook) throws {
        guard !users.isEmpty else { return }
        var tallies: [String: UserRecord.Tally] = [:]
        for user in users {
            tallies[user.id.app, default: UserRecord.Tally()].change(from: user.tally, to: UserRecord.Tally())
        }
        try save([], tallies: tallies, in: directory)
        for (app, users) in Dictionary(grouping: users, by: \.id.app) {
            for (state, gone) in Dictionary(grouping: users.flatMap(\.holdings).compactMap(\.standing?.state), by: { $0 }) {
                if state == .authorized { decisions.count(-gone.count, authorizedOf: directory.app(app).id) }
                try execute(
                    """
                    UPDATE credential_count SET count = count - \(gone.count)
                     WHERE app = \(directory.app(app).id) AND state = \(state.rawValue)
                    """
                )
            }
        }
    }
}

extension UserRecord {
    fileprivate var newestFact: Timestamp? {
        let ofUser = [
            registers.consentRevokedAt, registers.deletedAt, registers.revokedAt, registers.mailbox?.at, registers.forwarding?.at,
        ]
        let ofClients = holdings.flatMap { holding in
            let credential = holding.record.credential
            return [credential.grantedAt, credential.token?.key.grantedAt, credential.revokedAt]
        }
        return (ofUser + ofClients).compactMap(\.self).max()
    }
}
