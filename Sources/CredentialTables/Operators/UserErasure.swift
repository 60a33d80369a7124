// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Forgets one user in one transaction: every row goes, but for a pseudonym with a time, and receipts under it.
struct UserErasure<Connection: TableConnection> {
    let connection: Connection
    let request: ErasureRequest
    let now: Timestamp

    func carryOut() throws -> OperatorAnswer {
        // Work in a queue would bring the user back, and a request to revoke must not be lost.
        let waiting = try waitingRows()
        guard waiting.isEmpty else { return .stillWaiting(waiting) }
        let directory = try ClientDirectory(connection)
        let users = try lockUsers(in: directory)
        let authorized = users.filter { $0.holdings.contains { $0.standing?.state == .authorized } }.map(\.id.app)
        guard authorized.isEmpty || request.evenIfAuthorized else { return .stillAuthorized(apps: authorized) }
        var erasure = Erasure(at: now, pseudonym: request.pseudonym)
        for user in users {
            erasure.forgottenUntil[user.id.app] = try connection.remember(user, as: request.pseudonym, in: directory)
        }
        try erase(in: &erasure)
        try keepReceipts(in: &erasure)
        try eraseQuarantined(in: &erasure)
        guard erasure.erasedRows.values.contains(where: { $0 > 0 }) || !erasure.keptReceipts.isEmpty else { return .unknownUser }
        try eraseCommands()
        try connection.uncount(users, in: directory)
        return .forgotten(erasure)
    }

    private func waitingRows() throws -> [OperatorAnswer.WaitingRow] {
        try StoredTable.ofUsers.filter(\.isQueue).flatMap { table in
            // A request that is opened has tokens in `revocation`. A token has the number of its request.
            let id = table.has("id") ? "id" : "request"
            let isWaiting = table.has("opened_at") ? "opened_at IS NULL AND" : ""
            return try connection.fetchAll(
                "SELECT DISTINCT \(id) FROM \(table.name) WHERE \(isWaiting) \(table.isOfUser) ORDER BY \(id)",
                request.userID,
                request.app
            ).map { OperatorAnswer.WaitingRow(table: table.name, id: $0.integer(at: 0)) }
        }
    }

    /// The user in each app that knows the user, by app.
    private func lockUsers(in directory: ClientDirectory) throws -> [UserRecord] {
        let known = try connection.fetchAll(
            "SELECT app FROM credential WHERE user_id = $1 UNION SELECT app FROM user_event WHERE user_id = $1",
            request.userID
        ).map { $0.integer(at: 0) }
        let apps = directory.apps.values.filter { known.contains($0.id) && (request.app == nil || request.app == $0.name) }
        return try connection.users(apps.map { AppUserID(app: $0.name, userID: request.userID) }, in: directory)
            .values.sorted { $0.id.app < $1.id.app }
    }

    private func erase(in erasure: inout Erasure) throws {
        for table in StoredTable.ofUsers where !table.isQueue && table.name != "revocation_log" {
            let count =
                switch table.kind {
                case .log where table.name == "credential_change": try eraseChanges(table, in: &erasure)
                case .log: try eraseLogged(table)
                case .users, .setting, .view:
                    try connection.change("DELETE FROM \(table.name) WHERE \(table.isOfUser)", request.userID, request.app)
                }
            if count > 0 { erasure.erasedRows[table.name] = count }
        }
    }

    /// Erases the user's name from answered requests of operators.
    private func eraseCommands() throws {
        try connection.execute(
            "UPDATE operator_request SET request = '' WHERE answer IS NOT NULL AND position IS NULL AND replace(request, $1, '') <> request",
            request.userID
        )
    }

    private func eraseLogged(_ table: StoredTable) throws -> Int {
        let (condition, found, searched) = try search(in: table)
        return try connection.change("DELETE FROM \(table.name) WHERE \(condition)", request.userID, request.app, found, searched)
    }

    /// The newest row stays, so that a follower sees that older rows are gone.
    private func eraseChanges(_ table: StoredTable, in erasure: inout Erasure) throws -> Int {
        let (condition, found, searched) = try search(in: table)
        try connection.lockSettlements()
        let newest = try connection.fetchInt("SELECT MAX(id) FROM credential_change")
        let erased = try connection.fetchAll(
            "DELETE FROM credential_change WHERE \(condition) AND id <> $5 RETURNING id",
            request.userID,
            request.app,
            found,
            searched,
            newest
        )
        let unnamed = try connection.fetchAll(
            """
            UPDATE credential_change SET user_id = $5, email = NULL, email_forwarding = NULL, notification_jti = NULL WHERE \(condition)
            RETURNING id
            """,
            request.userID,
            request.app,
            found,
            searched,
            request.pseudonym
        )
        let ids = (erased + unnamed).map { $0.integer(at: 0) }
        erasure.unsentWebhooks = try connection.forgetWebhooks(of: ids)
        return ids.count
    }

    /// SQL: the rows that the search has found, and newer ones.
    private func search(in table: StoredTable) throws -> (condition: String, found: String, searched: Int64) {
        let condition = """
            \(table.isOfUser)
            AND (\(connection.dialect.isOne("id", ofIntegers: "$3")) OR id > $4)
            """
        let found = try JSONText.encode(request.found[table.name] ?? [])
        return (condition, found, (request.searchedUpTo[table.name] ?? 0) - StoredTable.searchMargin)
    }

    private func keepReceipts(in erasure: inout Erasure) throws {
        guard let log = StoredTable.ofUsers.first(where: { $0.name == "revocation_log" }) else { return }
        let requests = try connection.fetchAll(
            "UPDATE revocation_log SET user_id = $3 WHERE \(log.isOfUser) RETURNING request",
            request.userID,
            request.app,
            request.pseudonym
        )
        erasure.keptReceipts = Set(requests.map { $0.integer(at: 0) }).sorted()
    }

    private func eraseQuarantined(in erasure: inout Erasure) throws {
        let count = try QuarantineRow.remove(request.found["notification_quarantine"] ?? [], on: connection).count
        if count > 0 { erasure.erasedRows["notification_quarantine"] = count }
    }
}
