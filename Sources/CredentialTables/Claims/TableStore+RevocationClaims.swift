// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    package func dueRevocations(upTo limit: Int, at now: Timestamp, trusted: Timestamp?, quotas: [String: Int]) async throws
        -> [String: Int]
    {
        let directory = self.directory.withLockedValue { $0 }
        return try await query(.ofLane) { connection in
            // Apple is not asked about the tokens of a client that left, so no pause holds them.
            let clients = directory.clientsByID.values.filter { directory.isWatched($0) || trusted != nil }
            let counts = try clients.sorted { $0.id < $1.id }.map { client in
                let most = min(limit, quotas[client.clientID] ?? limit)
                let latest = DueRevocation.latestOpening(isWatched: directory.isWatched(client), at: trusted)
                func due(_ time: SQL) -> SQL {
                    """
                    SELECT COUNT(*) FROM (SELECT 1 FROM revocation r
                                           WHERE client = \(client.id) AND due_at \(time) AND \(isOpened(by: latest))
                                            LIMIT \(most)) AS found
                    """
                }
                let answer = try connection.ask(
                    """
                    SELECT CASE WHEN \(latest) < \(sql: DueRevocation.anyTime.milliseconds)
                                     OR (SELECT paused_at FROM app WHERE id = \(client.app.id)) IS NULL
                           THEN (\(due("<= \(now)"))) + (\(due("> \(DueRevocation.furthest(at: now))"))) ELSE 0 END
                    """
                )
                return (app: client.app.name, most: most, answer: answer)
            }
            var due: [String: Int] = [:]
            for (app, most, answer) in counts {
                let count = try connection.read(answer) { $0.int(at: 0) }.first ?? 0
                due[app] = min((due[app] ?? 0) + min(count, most), limit)
            }
            return due.filter { $0.value > 0 }
        }
    }

    package func claimRevocations(
        permits: [String: Int],
        at now: Timestamp,
        trusted: Timestamp?,
        policy: RefreshPolicy,
        quotas: [String: Int]
    ) async throws -> [DueRevocation] {
        let directory = self.directory.withLockedValue { $0 }
        // Sorted by name, so that a simulation with the same seed is the same run.
        let permits = permits.filter { $0.value > 0 }.sorted { $0.key < $1.key }
        guard !permits.isEmpty else { return [] }
        return try await claim { _ in
            true
        } taking: { [owner = claimName(), decisions] connection, _ in
            try permits.flatMap { name, permits -> [DueRevocation] in
                guard let app = directory.apps[name] else { return [] }
                let isPaused = try connection.isPaused(app.id)
                // Apple is not asked about tokens of a client that left the configuration, so no pause holds them.
                let clients = directory.clients(of: app.id).filter { directory.isWatched($0) ? !isPaused : trusted != nil }
                let answers = try clients.map { client in
                    try connection.askDueRevocations(
                        of: client.id,
                        openedBy: DueRevocation.latestOpening(isWatched: directory.isWatched(client), at: trusted),
                        upTo: min(permits, quotas[client.clientID] ?? permits),
                        at: now
                    )
                }
                let due = try answers.flatMap { answer in
                    try connection.read(answer) {
                        DueToken(request: $0[0], client: $0[1], attempts: $0[2], dueAt: $0[3], fingerprint: $0[4])
                    }
                }.sorted {
                    ($0.dueAt, $0.request, $0.client) < ($1.dueAt, $1.request, $1.client)
                }
                return try connection.take(due.prefix(permits), of: app, directory, decisions, owner: owner, at: now, policy: policy)
            }
        }
    }
}

private struct DueToken {
    var request: Int64
    var client: Int64
    var attempts: Int
    var dueAt: Int64
    var fingerprint: [UInt8]

    var isSuspect: Bool { attempts >= Claim.suspectAttempts }
}

extension TableConnection {
    /// Asks for the due tokens of a client, longest due first. Makes tokens due that were postponed by a clock that has since been set back.
    fileprivate func askDueRevocations(of client: Int64, openedBy latest: Timestamp, upTo limit: Int, at now: Timestamp) throws -> Answer? {
        guard limit > 0 else { return nil }
        try execute(
            """
            UPDATE revocation AS r SET due_at = \(now)
              FROM (SELECT request, client, token_fingerprint FROM revocation
                     WHERE client = \(client) AND due_at > \(DueRevocation.furthest(at: now))
                    \(dialect.lockOrder("request, client, token_fingerprint")) \(dialect.skipLocked)) AS found
             WHERE r.request = found.request AND r.client = found.client AND r.token_fingerprint = found.token_fingerprint
            """
        )
        return try ask(
            """
            SELECT request, client, attempts, due_at, token_fingerprint FROM revocation r
             WHERE client = \(client) AND due_at <= \(now) AND \(isOpened(by: latest))
             ORDER BY due_at, request, token_fingerprint LIMIT \(limit)
            """
        )
    }

    fileprivate func take(
        _ due: ArraySlice<DueToken>,
        of app: ClientDirectory.App,
        _ directory: ClientDirectory,
        _ decisions: DecisionBook,
        owner: String,
        at now: Timestamp,
        policy: RefreshPolicy
    ) throws -> [DueRevocation] {
        // A token that may have killed the process comes alone, so that a second crash costs no other token.
        let chosen = Array(due.first?.isSuspect ?? false ? due.prefix(1) : due.prefix { !$0.isSuspect })
        let rows = chosen.map {
            bound($0.request, $0.client, $0.fingerprint, $0.dueAt, now.advanced(by: policy.lease(attempts: $0.attempts)))
        }
        var taken: [DueRevocation] = []
        try forEachRow(of: ask(.takeRevocations, rows, bound(owner))) { place, row in
            guard let client = directory.clientsByID[chosen[place].client] else { return }
            taken.append(DueRevocation(row, of: chosen[place].request, at: client, owner: owner, decisions))
        }
        for (index, work) in taken.enumerated() {
            taken[index].newerSignIn = try newerSignIn(of: work.id.userID, in: app.id, after: work.wantedAt, at: now)
        }
        return taken
    }
}

/// Whether the request of a row `r` of `revocation` was opened by a time. Does not look for it at `DueRevocation.anyTime`.
private func isOpened(by time: Timestamp) -> SQL {
    """
    (\(time) = \(sql: DueRevocation.anyTime.milliseconds)
      OR EXISTS (SELECT 1 FROM revocation_queue q WHERE q.id = r.request AND q.opened_at <= \(time)))
    """
}

extension RowStatement {
    fileprivate static let takeRevocations = take("revocation", key: DueRevocation.keyColumns, returning: DueRevocation.columns)
}
