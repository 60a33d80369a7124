// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Loads the rows that a batch touches, each once. A server locks them in the one order: rows of queues by id, users, credentials,
/// breakers.
extension SettlementTransaction {
    func load(_ scope: SettlementScope) throws -> SettlementBasis {
        let notifications = try connection.askHeld(notifications: scope.notifications)
        let grants = try connection.ask(.grantHolders, scope.grants.map { bound($0.id) })
        // If two settlements finish the last tokens of a request, the second must see that its token is the last.
        let requestIDs = scope.revocationRequests.map(\.id) + Set(scope.revocations.map(\.id.request))
        let requests = try connection.ask(.requestHolders, requestIDs.map { bound($0) })
        let revoked = scope.revocations.filter { directory.clients[$0.id.clientID] != nil }
        let revokedKeys = revoked.map { bound($0.id.request, directory.client($0.id.clientID).id, $0.id.fingerprint) }
        let revocations = try connection.ask(.revocationHolders, revokedKeys)
        let users = UserRows(connection: connection, directory: directory)
        let askedUsers = try users.ask(for: scope.users)
        let told = scope.told.compactMap { id in rules.pseudonymizer.map { (id: id, pseudonym: $0.pseudonym(of: id.userID)) } }
        let forgotten = try connection.ask(.forgottenUsers, told.map { [$0.pseudonym.columnValue, app($0.id)] })
        let leaving = Array(scope.leaving)
        let tokens = try connection.ask(.tokensBeingRevoked, leaving.map { [$0.userID.columnValue, app($0)] })
        let bringing = scope.bringing.map(\.userID)
        let demands = try bringing.isEmpty ? nil : connection.ask(KnownRequests.selection(of: bringing, connection.dialect))
        let waiting = try askWaitingGrants(of: scope.signingIn)
        let judged = scope.judgedApps.map { directory.app($0).id }
        let breakers = try connection.ask(.breakers, judged.map { bound($0) })
        // Reads under the lock on the breakers, because a client's next state follows from its last one.
        let clients = try connection.ask(.clientRecords, scope.rejectedClients.union(scope.heardClients).map { bound($0) })
        try connection.confirm(directory)

        var basis = SettlementBasis()
        basis.users = try users.read(askedUsers)
        guard basis.users.count == scope.users.count else { throw StoreError.retry("a user was forgotten meanwhile") }
        try connection.forEachRow(of: forgotten) { place, row in
            basis.forgotten[told[place].id] = row.time(at: 0).map { ForgottenUser(pseudonym: told[place].pseudonym, until: $0) }
        }
        basis.heldNotifications = try notifications()
        var waitsSince: [Int64: Timestamp] = [:]
        basis.heldGrants = try connection.held(scope.grants, by: grants) { id, row in waitsSince[id] = row.time(at: 3) }
        basis.waitsSince = waitsSince.filter { basis.heldGrants[$0.key] != nil }
        basis.heldRevocationRequests = try connection.held(scope.revocationRequests, by: requests)
        try connection.forEachRow(of: revocations) { place, row in
            if Claim(row, from: 0) == revoked[place].claim { basis.heldRevocations[revoked[place].id] = revoked[place].claim }
        }
        try connection.forEachRow(of: tokens) { place, row in
            let asked: [RefreshToken.Key: Timestamp] = [RefreshToken.Key(grantedAt: row[0], fingerprint: row[1]): row[2]]
            basis.tokensBeingRevoked[leaving[place], default: [:]].merge(asked, uniquingKeysWith: max)
        }
        try connection.forEachRow(of: demands) { _, row in KnownRequests.read(row, into: &basis.requests, directory, decisions) }
        try connection.forEachRow(of: waiting) { _, row in
            let grant = WaitingGrant(row, from: 1)
            guard let app = directory.appNames[grant.clientID] else { return }
            basis.waitingGrants[AppUserID(app: app, userID: row.text(at: 0) ?? ""), default: []].append(grant)
        }
        try read(clients, into: &basis)
        let found = try self.breakers.judge(breakers, of: judged)
        for name in scope.judgedApps { basis.breakers[name] = found[directory.app(name).id] }
        for name in scope.limitedApps {
            let most = scope.revocationRequests.count
            let (limit, isPlanted) = try limits.load(directory.app(name).id, opening: most, under: rules.revocationLimit, at: now)
            basis.revocationLimits[name] = limit
            if isPlanted { basis.plantedLimits[name] = limit }
        }
        return basis
    }

    private func read(_ clients: Connection.Answer?, into basis: inout SettlementBasis) throws {
        try connection.forEachRow(of: clients) { _, row in
            let clientID: String = row[0]
            basis.provedAt[clientID] = row.time(at: 1)
            basis.clients[clientID] = ClientRecord(validAt: row[2], refusal: ClientRefusal(row, from: 3))
        }
    }

    private func app(_ id: AppUserID) -> ColumnValue { directory.app(id.app).id.columnValue }

    private func askWaitingGrants(of users: Set<AppUserID>) throws -> Connection.Answer? {
        guard !users.isEmpty else { return nil }
        // SQLite would look for each user.
        if connection.dialect == .sqlite, try connection.fetchInt("SELECT MAX(id) IS NOT NULL FROM grant_queue") == 0 { return nil }
        return try connection.ask(.waitingGrants, Set(users.map(\.userID)).map { [$0.columnValue] }, [now.columnValue])
    }
}

extension TableConnection {
    /// The claims that still hold their row. The answer has `id, claimed_by, attempts`, and what else `note` reads.
    package func held(
        _ claims: [(id: Int64, claim: Claim)],
        by answer: Answer?,
        _ note: (_ id: Int64, _ row: AnswerRow) -> Void = { _, _ in }
    ) throws -> [Int64: Claim] {
        var holders: [Int64: Claim] = [:]
        try forEachRow(of: answer) { _, row in
            holders[row.integer(at: 0)] = Claim(row, from: 1)
            note(row.integer(at: 0), row)
        }
        return claims.reduce(into: [:]) { held, claim in
            if holders[claim.id] == claim.claim { held[claim.id] = claim.claim }
        }
    }
}

extension Claim {
    /// SQL: ends the claim of a row.
    static let end = "attempts = 0, claimed_by = NULL"

    fileprivate init(_ row: some TableRow, from start: Int) { self.init(owner: row[start], attempts: row[start + 1]) }
}

extension RowStatement {
    package static let notificationHolders = read("id, claimed_by, attempts", of: "notification_queue", key: ["id"], lockedBy: "id")
    fileprivate static let grantHolders = read("id, claimed_by, attempts, waits_since", of: "grant_queue", key: ["id"], lockedBy: "id")
    fileprivate static let requestHolders = read("id, claimed_by, attempts", of: "revocation_queue", key: ["id"], lockedBy: "id")
    fileprivate static let revocationHolders = read(
        "t.claimed_by, t.attempts",
        of: "revocation",
        key: DueRevocation.keyColumns,
        lockedBy: "t.request, t.client, t.token_fingerprint"
    )
    private static let isForgotten = "t.deleted_at IS NOT NULL"
    fileprivate static let forgottenUsers = read("t.deleted_at", of: "user_event", key: AppUser.keyColumns, where: isForgotten)
    private static let revokedToken = "t.token_granted_at, t.token_fingerprint, t.requested_at"
    fileprivate static let tokensBeingRevoked = read(revokedToken, of: "revocation", key: AppUser.keyColumns)
    fileprivate static let clientRecords = read(
        "client_id, proved_at, valid_at, refused_since, refused_at, refusal",
        of: "client",
        key: ["client_id"]
    )
    private static let waiting = "SELECT g.user_id, \(WaitingGrant.columns(at: "@now").text) FROM grant_queue g WHERE g.user_id"
    fileprivate static let waitingGrants = RowStatement(
        ["user_id"],
        shared: ["now"],
        sqlite: "\(waiting) = @user_id AND \(WaitingGrant.mayCome("g", at: "@now").text)",
        postgres: "\(waiting) = ANY($1) AND \(WaitingGrant.mayCome("g", at: "@now").text)"
    )
}
