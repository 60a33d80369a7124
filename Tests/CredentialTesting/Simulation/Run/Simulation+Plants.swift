// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables
import Foundation
import GRDB

/// A member of the group writes into the tables what siwatch decides by. On a file that may be an older row, with its proof. On a server
/// roles keep others out, and the simulation plants there only rows without a proof.
extension Simulation {
    private var isFile: Bool { database.voidsClaims }

    mutating func plantRow() async throws {
        let app = plan.apps.randomElement(using: &asides)!
        switch Int.random(in: 0..<5, using: &asides) {
        case 0: try plantRevocation(of: app)
        case 1: try await plantBreaker(of: app)
        case 2: try resetLimit(of: app.name)
        case 3: try replayLimit(of: app.name)
        default: try plantUsers(of: app.name)
        }
    }

    /// For later.
    mutating func noteLimits() throws {
        for app in plan.apps where olderLimits[app.name] == nil { olderLimits[app.name] = try readLimit(of: app.name) }
    }

    private func note(_ kind: DecisionRow.Kind, of name: String, _ situation: Situation) {
        world.with { state in
            state.planted.insert(kind)
            state.note("somebody plants a \(kind) of \(name): \(situation)", counting: situation)
        }
    }

    // MARK: An operator's decision

    /// An operator's decision without a proof changes nothing.
    mutating func plant(in app: String) async throws {
        let requests = [
            #"{"dropRevocations":{"app":"\#(app)"}}"#, #"{"confirmRevocations":{"app":"\#(app)","count":9}}"#,
            #"{"resetBreaker":{"app":"\#(app)"}}"#,
        ]
        let kind = [DecisionRow.Kind.request, .confirmation, .pause].randomElement(using: &generator)!
        world.with { state in
            state.planted.insert(kind)
            state.note("somebody plants a \(kind)", counting: .decisionPlanted)
        }
        if kind == .request {
            let request = requests.randomElement(using: &generator)!
            let insert = "INSERT INTO operator_request (request, requested_at) VALUES (?, ?) RETURNING id"
            _ = try database.rows(insert, [request, now.milliseconds])
        } else if kind == .confirmation {
            let waits = "opened_at IS NULL AND held_at IS NULL AND confirmed_at IS NULL"
            _ = try database.rows("UPDATE revocation_queue SET confirmed_at = ? WHERE \(waits) RETURNING id", [now.milliseconds])
        } else {
            let change = "UPDATE app SET paused_at = ?, paused_proof = NULL WHERE paused_at IS NULL AND name = ? RETURNING id"
            _ = try database.rows(change, [now.milliseconds, app])
        }
        try await carryOut()
    }

    // MARK: A token to revoke

    /// The row that siwatch would write for a request, of a user whom nobody has asked to revoke. Apple hears nothing of it.
    private mutating func plantRevocation(of app: SimulatedApp) throws {
        let gone = dropped?.clientID
        let candidates = world.with { state in
            state.model.credentials.sorted { $0.name < $1.name }.filter { id in
                app.clientIDs.contains(id.clientID) && id.clientID != gone && state.model.row(of: id)?.holdsToken ?? false
                    && !state.model.requestRows.values.contains { $0.credential.userID == id.userID }
            }
        }
        guard let credential = candidates.randomElement(using: &asides) else { return }
        let (client, user) = (credential.clientID, credential.userID)
        let tokens = try database.rows(
            """
            SELECT c.token_granted_at, c.token_fingerprint FROM credential c JOIN client k ON k.id = c.client
             WHERE k.client_id = ? AND c.user_id = ? AND c.sealed_token IS NOT NULL
            """,
            [client, user]
        )
        guard let row = tokens.first else { return }
        let (grantedAt, fingerprint): (Int64, Data) = (row[0], row[1])
        let request: Int64 = try database.rows(
            "INSERT INTO revocation_queue (client_id, user_id, requested_at, effective_at, opened_at) VALUES (?, ?, ?, ?, ?) RETURNING id",
            [client, user, grantedAt, grantedAt, now.milliseconds]
        )[0][0]
        _ = try database.rows(
            """
            INSERT INTO revocation (request, client, app, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token,
                                    standing, verified_team, due_at)
            SELECT q.id, c.client, c.app, c.user_id, c.token_granted_at, c.token_granted_at, c.token_fingerprint, c.sealed_token,
                   'accepted_before', c.verified_team, q.opened_at
              FROM credential c JOIN client k ON k.id = c.client JOIN revocation_queue q ON q.user_id = c.user_id
             WHERE k.client_id = ? AND q.id = ? RETURNING request
            """,
            [client, request]
        )
        note(.revocation, of: credential.name, .revocationPlanted)
        let token = ReferenceModel.Token(grantedAt: Timestamp(milliseconds: grantedAt), fingerprint: Array(fingerprint))
        world.with { $0.model.planted(token, of: credential, as: request, at: $0.now) }
    }

    // MARK: A breaker

    /// The state after an operator's confirmation, or an older one. siwatch puts back what it knows, and trusts no state that it does not
    /// know.
    private mutating func plantBreaker(of app: SimulatedApp) async throws {
        let before = try database.rows(
            "SELECT b.state, b.proof FROM breaker b JOIN app a ON a.id = b.app WHERE a.name = ? AND b.state IS NOT NULL",
            [app.name]
        ).first.map { Array($0.databaseValues) }
        let known = try await process.store.breakers()[app.name] ?? RejectionBreaker()
        var confirmed = RejectionBreaker()
        confirmed.confirm(at: now, within: .seconds(86_400))
        let older = isFile ? olderBreakers[app.name] : nil
        try write(breaker: older ?? [JSONText.encode(confirmed).databaseValue, .null], of: app.name)
        note(.breaker, of: app.name, .breakerPlanted)
        try await process.store.adopt(process.clients, under: process.rules, at: now)
        let found = try await process.store.breakers()[app.name] ?? RejectionBreaker()
        let isRight = isFile ? found == known : found.isOpen && found.confirmedAt == nil
        if !isRight { world.report(Violation(.nothingIsLost, "siwatch believes the breaker of \(app.name) that somebody else wrote")) }
        if isFile { olderBreakers[app.name] = before } else { try write(breaker: before ?? [.null, .null], of: app.name) }
    }

    private func write(breaker: [DatabaseValue], of app: String) throws {
        _ = try database.rows(
            """
            INSERT INTO breaker (app, state, proof) VALUES ((SELECT id FROM app WHERE name = ?), ?, ?)
                ON CONFLICT (app) DO UPDATE SET state = excluded.state, proof = excluded.proof RETURNING app
            """,
            [app, breaker[0], breaker[1]]
        )
    }

    // MARK: The revocation limit

    private static let limitColumns = [
        "revocation_hour_at", "revocations_opened", "revocations_held_at", "revocations_held", "revocations_proof",
    ]

    /// Nil if nothing was counted yet, or without a proof.
    private func readLimit(of app: String) throws -> [DatabaseValue]? {
        try database.rows(
            """
            SELECT \(Self.limitColumns.joined(separator: ", ")) FROM app
             WHERE name = ? AND revocation_hour_at IS NOT NULL AND revocations_proof IS NOT NULL
            """,
            [app]
        ).first.map { Array($0.databaseValues) }
    }

    private func write(limit: [DatabaseValue], of app: String) throws {
        let changes = Self.limitColumns.map { "\($0) = ?" }.joined(separator: ", ")
        let values = limit.map { $0 as (any DatabaseValueConvertible)? }
        _ = try database.rows("UPDATE app SET \(changes) WHERE name = ? RETURNING id", values + [app])
    }

    /// A process that knows the count goes on with it. On a file, so does the next one, unless it finds another count than it remembers. Any
    /// other opens no more.
    private mutating func resetLimit(of app: String) throws {
        guard let limit = try readLimit(of: app), limit != replays[app]?.older else { return }
        _ = try database.rows("UPDATE app SET revocations_opened = 0, revocations_proof = NULL WHERE name = ? RETURNING id", [app])
        note(.limit, of: app, .limitReset)
        world.with { if !isFile || !$0.model.limitsKnown.contains(app) { $0.model.fillLimit(app) } }
    }

    private mutating func replayLimit(of app: String) throws {
        guard isFile, world.with({ $0.model.limitsKnown.contains(app) && !$0.replayed.contains(app) }), let newer = try readLimit(of: app),
            let older = olderLimits[app], older != newer
        else { return }
        // siwatch may come back to the older count by itself if an operator lets some of the held requests go.
        guard older[2].isNull || older[2] != newer[2] else { return }
        try write(limit: older, of: app)
        (replays[app], olderLimits[app]) = ((older, newer), nil)
        _ = world.with { $0.replayed.insert(app) }
        note(.limit, of: app, .limitReplayed)
    }

    /// Takes back what nobody has seen.
    mutating func takeReplaysBack() throws {
        let unseen = world.with(\.replayed)
        for (app, replay) in replays where unseen.contains(app) {
            if try readLimit(of: app) == replay.older { try write(limit: replay.newer, of: app) }
        }
        replays = [:]
        world.with { $0.replayed = [] }
    }

    /// A new process does not know what a count was that has no proof, or that is not the one of its memory.
    func fillLimits() throws {
        guard plan.plantsDecisions else { return }
        world.with { state in for app in state.replayed { state.model.fillLimit(app) } }
        let apps = try database.rows("SELECT name FROM app WHERE revocation_hour_at IS NOT NULL AND revocations_proof IS NULL")
        world.with { state in for app in apps { state.model.fillLimit(app[0]) } }
    }

    /// A share of many users would let many requests through.
    private mutating func plantUsers(of app: String) throws {
        guard isFile else { return }
        let changed = try database.rows(
            """
            UPDATE credential_count SET count = count + 1000000
             WHERE state = 'authorized' AND count < 1000000 AND app = (SELECT id FROM app WHERE name = ?) RETURNING app
            """,
            [app]
        )
        if !changed.isEmpty { note(.limit, of: app, .usersPlanted) }
    }
}
