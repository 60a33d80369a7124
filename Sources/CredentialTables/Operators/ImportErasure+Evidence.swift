// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What else than the import has told of its users.
extension ImportErasure {
    // MARK: The rows about the users

    /// A row of `grant_queue` or of `grant_log`.
    struct GrantRow {
        var id: Int64
        var grantID: Int64
        var name: CredentialName
        var grantedAt: Timestamp
        var isWaiting: Bool
        var isClaimed: Bool
    }

    /// The waiting sign-ins of the users. A daemon can neither claim nor settle them until the transaction ends.
    func lockWaiting(of users: String) throws -> [GrantRow] {
        let dialect = connection.dialect
        return try connection.fetchAll(
            """
            SELECT id, client_id, user_id, granted_at, claimed_by IS NOT NULL AND due_at > $2 FROM grant_queue
             WHERE \(dialect.isOne("user_id", ofTexts: "$1")) ORDER BY id \(dialect.forUpdate)
            """,
            users,
            now
        ).map { row in
            GrantRow(
                id: row.integer(at: 0),
                grantID: row.integer(at: 0),
                name: CredentialName(row, client: 1, user: 2),
                grantedAt: Timestamp(milliseconds: row.integer(at: 3)),
                isWaiting: true,
                isClaimed: row.bool(at: 4)
            )
        }
    }

    /// The settled sign-ins of the users: those of the batch, those that the search has found, and newer ones.
    func loggedGrants(_ rows: String, of users: String) throws -> [GrantRow] {
        let columns = "id, grant_id, client_id, user_id, granted_at"
        let ofBatch = try connection.fetchAll(
            "SELECT \(columns) FROM grant_log WHERE \(connection.dialect.isOne("grant_id", ofIntegers: "$1"))",
            rows
        )
        let others = try logged(columns, .grants, of: users)
        var ids: Set<Int64> = []
        return (ofBatch + others).filter { ids.insert($0.integer(at: 0)).inserted }.map { row in
            GrantRow(
                id: row.integer(at: 0),
                grantID: row.integer(at: 1),
                name: CredentialName(row, client: 2, user: 3),
                grantedAt: Timestamp(milliseconds: row.integer(at: 4)),
                isWaiting: false,
                isClaimed: false
            )
        }
    }

    /// The rows of a log about the users that the search has found, and newer ones. Some may come twice.
    func logged(_ columns: String, _ log: UserLog, of users: String) throws -> [Connection.Row] {
        let dialect = connection.dialect
        let found = try JSONText.encode(undo.found[log.rawValue] ?? [])
        let searched = max(undo.searchedUpTo[log.rawValue] ?? 0, 0)
        let known = try connection.fetchAll(
            """
            SELECT \(columns) FROM \(log.rawValue)
             WHERE \(dialect.isOne("id", ofIntegers: "$1")) AND \(dialect.isOne("user_id", ofTexts: "$2"))
            """,
            found,
            users
        )
        let newer = try connection.fetchAll(
            "SELECT \(columns) FROM \(log.rawValue) WHERE id > $1 AND \(dialect.isOne("user_id", ofTexts: "$2"))",
            searched - StoredTable.searchMargin,
            users
        )
        return known + newer
    }

    // MARK: What else has told of the users

    struct Evidence {
        var credential = ImportedCredential()
        /// The first row of the import about the credential. The batch of this row decides.
        var first: Int64?
        /// The import's rows of `grant_log`.
        var logged: [Int64] = []
    }

    func evidence(
        for names: Set<CredentialName>,
        _ rows: [GrantRow],
        _ ledgers: ImportLedgers,
        of users: String,
        in directory: ClientDirectory
    ) throws -> [CredentialName: Evidence] {
        var evidence = Dictionary(uniqueKeysWithValues: names.map { ($0, Evidence()) })
        for row in rows {
            guard var found = evidence[row.name] else { continue }
            if ledgers.contains(row.grantID) {
                found.first = min(found.first ?? row.grantID, row.grantID)
                found.credential.times.insert(row.grantedAt)
                if row.isClaimed { found.credential.isClaimed = true }
                if !row.isWaiting { found.logged.append(row.id) }
            } else {
                found.credential.hasOtherSignIn = true
            }
            evidence[row.name] = found
        }
        let revoked = try revokedUsers(users, in: directory)
        let notified = try notifiedUsers(users)
        for name in names {
            guard let first = evidence[name]?.first else { continue }
            let user = directory.user(name)
            evidence[name]?.credential.wasKnown = ledgers.isKnown(first)
            evidence[name]?.credential.hasRevocation = user.map { revoked.contains($0) } ?? false
            evidence[name]?.credential.hasNotification = user.map { notified.contains($0) } ?? false
        }
        return evidence
    }

    /// The users that a backend has asked siwatch to revoke. A request of an app that siwatch does not know counts for every app.
    private func revokedUsers(_ users: String, in directory: ClientDirectory) throws -> Set<AppUserID> {
        let isOne = connection.dialect.isOne("user_id", ofTexts: "$1")
        var revoked: Set<AppUserID> = []
        func note(_ app: String?, _ userID: String?) {
            guard let userID else { return }
            for app in app.map({ [$0] }) ?? Array(directory.apps.keys) { revoked.insert(AppUserID(app: app, userID: userID)) }
        }
        for row in try connection.fetchAll("SELECT client_id, user_id FROM revocation_queue WHERE opened_at IS NULL AND \(isOne)", users) {
            note(directory.appNames[row.text(at: 0) ?? ""], row.text(at: 1))
        }
        // A request that is opened has its tokens here.
        for row in try connection.fetchAll("SELECT client, user_id FROM revocation WHERE \(isOne)", users) {
            note(directory.clientsByID[row.integer(at: 0)]?.app.name, row.text(at: 1))
        }
        for row in try connection.fetchAll("SELECT app, user_id FROM revocation_log WHERE \(isOne)", users) {
            note(row.text(at: 0), row.text(at: 1))
        }
        return revoked
    }

    private func notifiedUsers(_ users: String) throws -> Set<AppUserID> {
        let rows = try logged("app, user_id", .notifications, of: users)
        return Set(rows.map { AppUserID(app: $0.text(at: 0) ?? "", userID: $0.text(at: 1) ?? "") })
    }
}
