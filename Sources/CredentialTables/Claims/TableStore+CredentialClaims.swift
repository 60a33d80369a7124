// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    package func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>,
        quotas: [String: Int]
    ) async throws -> [DueCredential] {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, let appID = directory.apps[app]?.id else { return [] }
        let quotas = directory.numbered(quotas)
        let schedule = Schedule<Connection>(app: appID, clients: directory.watchedClients(of: appID), policy: policy, now: now)
        let first = schedule.clients.filter { id in directory.clientsByID[id].map { preferred.contains($0.clientID) } ?? false }
        return try await claim { connection -> (due: [ClaimableCredential], mustRepair: Bool)? in
            guard try !connection.isPaused(appID) else { return nil }
            var due = try schedule.due(of: first, upTo: limit, quotas: quotas, on: connection)
            if due.isEmpty { due = try schedule.next(upTo: limit, firstChecks: firstChecks, quotas: quotas, on: connection) }
            let mustRepair = try schedule.mustBeRepaired(on: connection)
            return due.isEmpty && !mustRepair ? nil : (due, mustRepair)
        } taking: { [owner = claimName()] connection, found in
            if found.mustRepair { try schedule.repair(on: connection) }
            return try connection.take(found.due, .takeDue, directory, owner: owner, at: now, policy: policy) { _ in .check }
        }
    }

    package func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]
    {
        let directory = self.directory.withLockedValue { $0 }
        return try await claim { connection -> [ClaimableCredential]? in
            let answers = try clients.sorted().compactMap { directory.clients[$0] }.map { client in
                try connection.ask(
                    """
                    SELECT \(sql: ClaimableCredential.columns) FROM credential \(connection.dialect.indexed(by: "credential_first"))
                     WHERE client = \(client.id) AND first_check IS NOT NULL AND due_at IS NOT NULL AND claimed_by IS NULL
                       AND EXISTS (SELECT 1 FROM app WHERE id = \(client.app.id) AND paused_at IS NULL)
                     ORDER BY first_check, due_at, user_id LIMIT 1
                    """
                )
            }
            let next = try answers.flatMap { try connection.read($0) { ClaimableCredential($0) } }
            return next.isEmpty ? nil : Array(next.prefix(limit))
        } taking: { [owner = claimName()] connection, next in
            try connection.take(next, .takeDue, directory, owner: owner, at: now, policy: policy) { _ in .check }
        }
    }

    package func claimPendingRejections(
        of app: String,
        admittedBy admissions: [AdmissionRule],
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy
    ) async throws -> [DueCredential] {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, !admissions.isEmpty, let appID = directory.apps[app]?.id else { return [] }
        return try await claim { connection -> [ClaimableCredential]? in
            let admitted = try connection.pendingRejections(of: appID, admittedBy: admissions, directory, upTo: limit, at: now)
            return admitted.isEmpty ? nil : admitted
        } taking: { [owner = claimName()] connection, admitted in
            try connection.take(admitted, .takePending, directory, owner: owner, at: now, policy: policy) { $0.map { .admission($0) } }
        }
    }

    package func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]
    {
        let directory = self.directory.withLockedValue { $0 }
        guard limit > 0, !userIDs.isEmpty, let appID = directory.apps[app]?.id else { return [] }
        let users = userIDs.sorted().map { bound($0) }
        let shared = bound(appID, now.advanced(by: .zero - BreakerRules.canaryInterval), now)
        @Sendable func due(_ connection: Connection) throws -> [DueCredential] {
            guard try !connection.isPaused(appID) else { return [] }
            return try connection.read(connection.ask(.canaries, users, shared)) { row -> DueCredential? in
                guard let client = directory.clientsByID[row[0]], directory.isWatched(client), !excluded.contains(client.clientID)
                else { return nil }
                return DueCredential(row, from: 2, of: row[1], at: client, for: .canary, Claim(owner: "", attempts: 0))
            }.compactMap(\.self)
        }
        return try await claim { connection -> Bool? in
            try connection.dialect == .postgres || !due(connection).isEmpty ? true : nil
        } taking: { connection, _ in
            let taken = Array(try due(connection).prefix(limit))
            // Remembers when siwatch asked about a canary out of turn.
            let notes = taken.map { bound($0.id.userID, directory.clients[$0.id.clientID]?.id, now) }
            try connection.execute(.noteCanaries, notes)
            return taken
        }
    }
}

extension TableConnection {
    /// - Parameter purpose: nil if the row is not to be claimed for it.
    fileprivate func take(
        _ credentials: [ClaimableCredential],
        _ statement: RowStatement,
        _ directory: ClientDirectory,
        owner: String,
        at now: Timestamp,
        policy: RefreshPolicy,
        for purpose: (PendingRejection?) -> DueCredential.Purpose?
    ) throws -> [DueCredential] {
        let rows = credentials.map {
            bound($0.userID, $0.client, $0.dueAt, now.advanced(by: policy.lease(attempts: $0.attempts)))
        }
        var taken: [DueCredential] = []
        try forEachRow(of: ask(statement, rows, bound(owner))) { place, row in
            let credential = credentials[place]
            guard let client = directory.clientsByID[credential.client], let purpose = purpose(PendingRejection(row, from: 1)) else {
                return
            }
            let claim = Claim(owner: owner, attempts: row[0])
            taken.append(DueCredential(row, from: 4, of: credential.userID, at: client, for: purpose, claim))
        }
        return taken
    }
}

extension RowStatement {
    /// Every change of a row moves its due time, so this finds only unchanged rows.
    fileprivate static let takeDue = take(where: "TRUE")
    fileprivate static let takePending = take(where: "t.pending_since IS NOT NULL")

    private static func take(where condition: String) -> RowStatement {
        take(
            "credential",
            key: ["user_id", "client"],
            where: (
                sqlite: "(SELECT paused_at FROM app WHERE id = t.app) IS NULL AND \(condition)",
                postgres: "t.app <> ALL (ARRAY(SELECT id FROM app WHERE paused_at IS NOT NULL)) AND \(condition)"
            ),
            returning: "attempts, pending_since, pending_asked_at, pending_key, \(DueCredential.columns)"
        )
    }

    fileprivate static let noteCanaries = insert(
        into: "canary",
        ["user_id", "client", "asked_at"],
        orElse: "ON CONFLICT (user_id, client) DO UPDATE SET asked_at = excluded.asked_at"
    )

    private static let canary = """
        c.app = @app AND c.state = 'authorized' AND c.sealed_token IS NOT NULL
        AND (a.asked_at IS NULL OR a.asked_at <= @asked_at OR a.asked_at > @now)
        """
    private static let canarySource = """
        SELECT c.client, c.user_id, \(DueCredential.columns)
          FROM credential c LEFT JOIN canary a ON a.user_id = c.user_id AND a.client = c.client
        """
    fileprivate static let canaries = RowStatement(
        ["user_id"],
        shared: ["app", "asked_at", "now"],
        sqlite: "\(canarySource) WHERE c.user_id = @user_id AND \(canary)",
        postgres: "\(canarySource) WHERE c.user_id = ANY($1) AND \(canary) ORDER BY c.user_id, c.client"
    )
}

extension TableConnection {
    /// An operator's pause survives restarts. siwatch asks about nobody, and due checks stay due.
    func isPaused(_ app: Int64) throws -> Bool {
        try exists("SELECT 1 FROM app WHERE id = \(app) AND paused_at IS NOT NULL")
    }
}
