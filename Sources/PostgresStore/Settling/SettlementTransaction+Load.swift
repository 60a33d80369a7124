// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// Loads the rows that a batch touches, and locks them in the one order: rows of queues by id, users, credentials, breakers.
extension SettlementTransaction {
    func load(_ scope: SettlementScope) throws -> SettlementBasis {
        let notifications = try sendLock("notification_queue", "NULL::bigint", scope.notifications.map(\.id))
        let grants = try sendLock("grant_queue", "waits_since", scope.grants.map(\.id))
        // If two settlements finish the last tokens of a request, the second must see that its token is the last.
        let requests = try sendLock(
            "revocation_queue",
            "NULL::bigint",
            scope.revocationRequests.map(\.id) + Set(scope.revocations.map(\.id.request))
        )
        let revocations = try sendLockRevocations(scope.revocations.map(\.id))
        let table = UserTable(connection: connection, directory: directory)
        let users = try table.sendLock(scope.users)
        let forgotten = try sendForgotten(scope.told)
        let tokens = try sendTokensBeingRevoked(of: scope.leaving)
        let demands =
            try scope.bringing.isEmpty
            ? nil : connection.send(KnownRequests.selection(.postgres), JSONText.encode(scope.bringing.map(\.userID)))
        let waiting = try sendWaitingGrants(of: scope.signingIn)
        let breakers = try connection.send(
            "SELECT app, state FROM breaker WHERE app = ANY($1) ORDER BY app FOR UPDATE",
            ArrayOf(scope.judgedApps.map { directory.app($0).id })
        )
        // Reads under the lock on the breakers, because a client's next state follows from its last one.
        let clients = try connection.send(
            "SELECT client_id, proved_at, valid_at, refused_since, refused_at, refusal FROM client WHERE client_id = ANY($1)",
            ArrayOf(scope.rejectedClients.union(scope.heardClients))
        )
        // Reads last, so that the directory has the client of every row that was read, and the present name of its app.
        let known = try connection.send(
            "SELECT (SELECT COALESCE(MAX(id), 0) FROM client), (SELECT string_agg(name, E'\\n' ORDER BY id) FROM app)"
        )
        guard let row = try connection.rows(of: known).first, row.integer(at: 0) == directory.newestClient,
            row.text(at: 1) ?? "" == directory.names
        else { throw OutdatedDirectory() }

        var basis = SettlementBasis()
        basis.users = try table.users(users)
        // siwatch has forgotten a user while this waited for the lock on the row.
        guard basis.users.count == scope.users.count else { throw StoreError.retry("a user was forgotten meanwhile") }
        try read(forgotten: forgotten, into: &basis)
        let held = (try holders(notifications), try holders(grants), try holders(requests))
        for (id, claim) in scope.notifications where held.0[id]?.claim == claim { basis.heldNotifications[id] = claim }
        for (id, claim) in scope.grants where held.1[id]?.claim == claim {
            basis.heldGrants[id] = claim
            basis.waitsSince[id] = held.1[id]?.waitsSince
        }
        for (id, claim) in scope.revocationRequests where held.2[id]?.claim == claim { basis.heldRevocationRequests[id] = claim }
        try read(revocations, of: scope, into: &basis)
        try read(tokens: tokens, into: &basis)
        if let demands { basis.requests = try KnownRequests.read(Array(connection.rows(of: demands))) }
        try read(waiting: waiting, into: &basis)
        try connection.rows(of: clients).forEach { row in
            let clientID = row.text(at: 0) ?? ""
            basis.provedAt[clientID] = row.time(at: 1)
            basis.clients[clientID] = ClientRecord(row, from: 2)
        }
        try read(breakers: breakers, into: &basis)
        for name in scope.brakedApps { basis.brakes[name] = try BrakeRow.load(directory.app(name).id, on: connection) }
        return basis
    }

    // MARK: Claims

    private func sendLock(_ table: String, _ column: String, _ ids: [Int64]) throws -> Connection.Answer? {
        guard !ids.isEmpty else { return nil }
        return try connection.send(
            "SELECT id, claimed_by, attempts, \(column) FROM \(table) WHERE id = ANY($1) ORDER BY id FOR UPDATE",
            ArrayOf(ids)
        )
    }

    private func holders(_ answer: Connection.Answer?) throws -> [Int64: (claim: Claim, waitsSince: Timestamp?)] {
        guard let answer else { return [:] }
        let rows = try connection.rows(of: answer).map { row in
            (row.integer(at: 0), (Claim(owner: row.text(at: 1) ?? "", attempts: row.int(at: 2)), row.time(at: 3)))
        }
        return Dictionary(uniqueKeysWithValues: rows)
    }

    private func sendLockRevocations(_ ids: [RevocationID]) throws -> Connection.Answer? {
        var keys = RowArrays()
        for id in ids { directory.clients[id.clientID].map { keys.append(id.request, $0.id, id.fingerprint) } }
        guard keys.count > 0 else { return nil }
        return try connection.send(
            """
            SELECT r.request, r.client, r.claimed_by, r.attempts, r.token_fingerprint
              FROM unnest($1, $2, $3) AS k (request, client, token_fingerprint)
              JOIN revocation r ON r.request = k.request AND r.client = k.client AND r.token_fingerprint = k.token_fingerprint
             ORDER BY r.request, r.client, r.token_fingerprint FOR UPDATE OF r
            """,
            keys.parameters
        )
    }

    private func read(_ revocations: Connection.Answer?, of scope: SettlementScope, into basis: inout SettlementBasis) throws {
        guard let revocations else { return }
        var claims: [RevocationID: Claim] = [:]
        try connection.rows(of: revocations).forEach { row in
            guard let client = directory.clientsByID[row.integer(at: 1)], let owner = row.text(at: 2) else { return }
            let id = RevocationID(request: row.integer(at: 0), clientID: client.clientID, fingerprint: row.bytes(at: 4))
            claims[id] = Claim(owner: owner, attempts: row.int(at: 3))
        }
        for (id, claim) in scope.revocations where claims[id] == claim { basis.heldRevocations[id] = claim }
    }

    // MARK: More about the users, once they are locked

    private func sendForgotten(_ users: Set<AppUserID>) throws -> Connection.Answer? {
        guard let pseudonymizer = rules.pseudonymizer, !users.isEmpty else { return nil }
        var keys = RowArrays()
        for id in users { keys.append(pseudonymizer.pseudonym(of: id.userID), directory.app(id.app).id, id.app, id.userID) }
        return try connection.send(
            """
            SELECT k.name, k.user_id, u.user_id, u.deleted_at
              FROM unnest($1, $2, $3, $4) AS k (pseudonym, app, name, user_id) JOIN user_event u ON u.user_id = k.pseudonym AND u.app = k.app
             WHERE u.deleted_at IS NOT NULL
            """,
            keys.parameters
        )
    }

    private func read(forgotten: Connection.Answer?, into basis: inout SettlementBasis) throws {
        guard let forgotten else { return }
        try connection.rows(of: forgotten).forEach { row in
            let id = AppUserID(app: row.text(at: 0) ?? "", userID: row.text(at: 1) ?? "")
            basis.forgotten[id] = row.time(at: 3).map { ForgottenUser(pseudonym: row.text(at: 2) ?? "", until: $0) }
        }
    }

    private func sendTokensBeingRevoked(of users: Set<AppUserID>) throws -> Connection.Answer? {
        var keys = RowArrays()
        for id in users { keys.append(id.userID, directory.app(id.app).id, id.app) }
        guard keys.count > 0 else { return nil }
        return try connection.send(
            """
            SELECT k.name, r.user_id, r.token_granted_at, r.token_fingerprint, r.requested_at
              FROM unnest($1, $2, $3) AS k (user_id, app, name) JOIN revocation r ON r.user_id = k.user_id AND r.app = k.app
            """,
            keys.parameters
        )
    }

    private func read(tokens: Connection.Answer?, into basis: inout SettlementBasis) throws {
        guard let tokens else { return }
        try connection.rows(of: tokens).forEach { row in
            let key = RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: 2)), fingerprint: row.bytes(at: 3))
            let id = AppUserID(app: row.text(at: 0) ?? "", userID: row.text(at: 1) ?? "")
            basis.tokensBeingRevoked[id, default: [:]].merge([key: Timestamp(milliseconds: row.integer(at: 4))], uniquingKeysWith: max)
        }
    }

    private func sendWaitingGrants(of users: Set<AppUserID>) throws -> Connection.Answer? {
        guard !users.isEmpty else { return nil }
        return try connection.send(
            """
            SELECT g.user_id, \(WaitingGrant.columns(at: "$2"))
              FROM grant_queue g
             WHERE g.user_id = ANY($1) AND \(WaitingGrant.mayCome("g", at: "$2"))
            """,
            ArrayOf(users.map(\.userID)),
            now
        )
    }

    private func read(waiting: Connection.Answer?, into basis: inout SettlementBasis) throws {
        guard let waiting else { return }
        try connection.rows(of: waiting).forEach { row in
            let grant = WaitingGrant(row, from: 1)
            guard let app = directory.appNames[grant.clientID] else { return }
            basis.waitingGrants[AppUserID(app: app, userID: row.text(at: 0) ?? ""), default: []].append(grant)
        }
    }

    private func read(breakers: Connection.Answer, into basis: inout SettlementBasis) throws {
        let names = Dictionary(uniqueKeysWithValues: directory.apps.values.map { ($0.id, $0.name) })
        try connection.rows(of: breakers).forEach { row in
            guard let name = names[row.integer(at: 0)] else { return }
            basis.breakers[name] = BreakerRow.read(row.text(at: 1))
        }
    }
}

/// The tables hold clients that this process does not know, or no longer hold some that it knows.
struct OutdatedDirectory: Error {}
