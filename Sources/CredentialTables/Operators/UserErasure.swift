// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Forgets one user in one transaction: every row goes, but for a pseudonym with a time, and receipts under it.
struct UserErasure<Connection: TableConnection> {
    let connection: Connection
    let decisions: DecisionBook
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
        try connection.uncount(users, in: directory, decisions)
        return .forgotten(erasure)
    }

    private func waitingRows() throws -> [OperatorAnswer.WaitingRow] {
        try StoredTable.ofUsers.filter(\.isQueue).flatMap { table in
            // A token to revoke has the number of its request.
            let id = table.has("id") ? "id" : "request"
            let isWaiting = table.isWaiting(for: request.userID, in: request.app)
            return try connection.fetchAll(
                "SELECT DISTINCT \(sql: id) FROM \(sql: table.name) WHERE \(isWaiting) ORDER BY \(sql: id)"
            ).map { OperatorAnswer.WaitingRow(table: table.name, id: $0.integer(at: 0)) }
        }
    }

    private func lockUsers(in directory: ClientDirectory) throws -> [UserRecord] {
        let user = request.userID
        let known = try connection.fetchAll(
            "SELECT app FROM credential WHERE user_id = \(user) UNION SELECT app FROM user_event WHERE user_id = \(user)"
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
                case .log: try connection.change("DELETE FROM \(sql: table.name) WHERE \(isFound(in: table))")
                case .users, .setting, .view:
                    try connection.change("DELETE FROM \(sql: table.name) WHERE \(isOfUser(table))")
                }
            if count > 0 { erasure.erasedRows[table.name] = count }
        }
    }

    private func eraseCommands() throws {
        try connection.execute(
            """
            UPDATE operator_request SET request = ''
             WHERE answer IS NOT NULL AND position IS NULL AND replace(request, \(request.userID), '') <> request
            """
        )
    }

    /// The newest row stays, so that a follower sees that older rows are gone.
    private func eraseChanges(_ table: StoredTable, in erasure: inout Erasure) throws -> Int {
        let isFound = try isFound(in: table)
        try connection.lockSettlements()
        let newest = try connection.fetchInt("SELECT MAX(id) FROM credential_change")
        let erased = try connection.fetchAll("DELETE FROM credential_change WHERE \(isFound) AND id <> \(newest) RETURNING id")
        let unnamed = try connection.fetchAll(
            """
            UPDATE credential_change SET user_id = \(request.pseudonym), email = NULL, email_forwarding = NULL, notification_jti = NULL
             WHERE \(isFound) RETURNING id
            """
        )
        let ids = (erased + unnamed).map { $0.integer(at: 0) }
        erasure.unsentWebhooks = try connection.forgetWebhooks(of: ids)
        return ids.count
    }

    private func isOfUser(_ table: StoredTable) -> SQL { table.isOfUser(request.userID, in: request.app) }

    /// Whether the search has found a row of the user, or the row is newer.
    private func isFound(in table: StoredTable) throws -> SQL {
        let searched = (request.searchedUpTo[table.name] ?? 0) - StoredTable.searchMargin
        return "\(isOfUser(table)) AND (\(try connection.dialect.isOne("id", of: request.found[table.name] ?? [])) OR id > \(searched))"
    }

    private func keepReceipts(in erasure: inout Erasure) throws {
        guard let log = StoredTable.ofUsers.first(where: { $0.name == "revocation_log" }) else { return }
        let requests = try connection.fetchAll(
            "UPDATE revocation_log SET user_id = \(request.pseudonym) WHERE \(isOfUser(log)) RETURNING request"
        )
        erasure.keptReceipts = Set(requests.map { $0.integer(at: 0) }).sorted()
    }

    private func eraseQuarantined(in erasure: inout Erasure) throws {
        let count = try QuarantineRow.remove(request.found["notification_quarantine"] ?? [], on: connection).count
        if count > 0 { erasure.erasedRows["notification_quarantine"] = count }
    }
}
