// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import GRDB

/// Loads the rows that a batch touches. It reads each row once, however many facts the batch holds of it.
extension SettlementTransaction {
    func load(_ scope: SettlementScope) throws -> SettlementBasis {
        var basis = SettlementBasis()
        basis.users = try UserTable(db: db, directory: directory).load(scope.users)
        try loadForgotten(scope.told, into: &basis)
        try loadClaims(scope, into: &basis)
        try loadRevocations(scope, into: &basis)
        if !scope.bringing.isEmpty {
            let users = try JSONText.encode(scope.bringing.map(\.userID))
            basis.requests = try KnownRequests.read(connection.fetchAll(KnownRequests.selection(.sqlite), users))
        }
        try loadWaitingGrants(of: scope.signingIn, into: &basis)
        for name in scope.judgedApps {
            basis.breakers[name] = try BreakerRow.load(directory.app(name).id, on: connection)
        }
        for name in scope.brakedApps { basis.brakes[name] = try BrakeRow.load(directory.app(name).id, on: connection) }
        for clientID in scope.rejectedClients {
            basis.provedAt[clientID] = try connection.fetchOne("SELECT proved_at FROM client WHERE client_id = $1", clientID)?.time(at: 0)
        }
        for clientID in scope.heardClients {
            basis.clients[clientID] = try connection.fetchOne(
                "SELECT valid_at, refused_since, refused_at, refusal FROM client WHERE client_id = $1",
                clientID
            ).map { ClientRecord($0, from: 0) }
        }
        return basis
    }

    private func loadForgotten(_ users: Set<AppUserID>, into basis: inout SettlementBasis) throws {
        guard let pseudonymizer = rules.pseudonymizer, !users.isEmpty else { return }
        let forgotten = try PreparedStatement("SELECT deleted_at FROM user_event WHERE user_id = ? AND app = ?", in: db)
        for id in users {
            let pseudonym = pseudonymizer.pseudonym(of: id.userID)
            guard let until = try forgotten.first(pseudonym, directory.app(id.app).id, read: { $0.time(at: 0) }) else { continue }
            basis.forgotten[id] = until.map { ForgottenUser(pseudonym: pseudonym, until: $0) }
        }
    }

    private func loadClaims(_ scope: SettlementScope, into basis: inout SettlementBasis) throws {
        let holders = try NotificationRows.holders(of: scope.notifications.map(\.id), in: db)
        for (id, claim) in scope.notifications where holders[id]?.isHeld(by: claim) ?? false { basis.heldNotifications[id] = claim }
        if !scope.grants.isEmpty {
            let held = try PreparedStatement("SELECT waits_since FROM grant_queue WHERE id = ? AND claimed_by = ? AND attempts = ?", in: db)
            for (id, claim) in scope.grants {
                guard let waitsSince = try held.first(id, claim.owner, claim.attempts, read: { $0.time(at: 0) }) else { continue }
                basis.heldGrants[id] = claim
                basis.waitsSince[id] = waitsSince
            }
        }
    }

    private func loadRevocations(_ scope: SettlementScope, into basis: inout SettlementBasis) throws {
        for (id, claim) in scope.revocationRequests {
            let isHeld = try connection.exists(
                "SELECT 1 FROM revocation_queue WHERE id = $1 AND claimed_by = $2 AND attempts = $3",
                id,
                claim.owner,
                claim.attempts
            )
            if isHeld { basis.heldRevocationRequests[id] = claim }
        }
        for (id, claim) in scope.revocations {
            let isHeld = try connection.exists(
                """
                SELECT 1 FROM revocation
                 WHERE request = $1 AND client = $2 AND token_fingerprint = $3 AND claimed_by = $4 AND attempts = $5
                """,
                id.request,
                directory.clients[id.clientID]?.id,
                id.fingerprint,
                claim.owner,
                claim.attempts
            )
            if isHeld { basis.heldRevocations[id] = claim }
        }
        for id in scope.leaving {
            let rows = try connection.fetchAll(
                "SELECT token_granted_at, token_fingerprint, requested_at FROM revocation WHERE user_id = $1 AND app = $2",
                id.userID,
                directory.app(id.app).id
            )
            basis.tokensBeingRevoked[id] = Dictionary(
                rows.map { row in
                    let key = RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: 0)), fingerprint: row.bytes(at: 1))
                    return (key, Timestamp(milliseconds: row.integer(at: 2)))
                },
                uniquingKeysWith: max
            )
        }
    }

    private func loadWaitingGrants(of users: Set<AppUserID>, into basis: inout SettlementBasis) throws {
        guard !users.isEmpty, try connection.fetchInt("SELECT MAX(id) IS NOT NULL FROM grant_queue") != 0 else { return }
        let waiting = try PreparedStatement(
            """
            SELECT \(WaitingGrant.columns(at: "?2"))
              FROM grant_queue g
             WHERE user_id = ?1 AND \(WaitingGrant.mayCome("g", at: "?2"))
            """,
            in: db
        )
        for id in users {
            try waiting.forEachRow(id.userID, now) { row in
                let grant = WaitingGrant(row, from: 0)
                if directory.appNames[grant.clientID] == id.app { basis.waitingGrants[id, default: []].append(grant) }
            }
        }
    }
}
