// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The report of `siwatch status`.
struct StatusReport: Encodable {
    /// By the clock of the store.
    var at: Timestamp
    var version = Version.current
    var database: String
    var isRunning: Bool
    /// The last sign of life of any siwatch on this database.
    var aliveAt: Timestamp?
    /// Whether siwatch has run for a minute and written nothing here in that time. A beat is due each ten seconds.
    var isSilent: Bool
    /// Why backends cannot insert; nil if they can, or if no daemon has the file open.
    var insertObstacle: String?
    /// The version of the SQLite library. Nil on a server.
    var sqlite: String?
    /// The version of the PostgreSQL server. Nil on a file.
    var postgresql: String?
    /// Whether this SQLite can lose committed pages when other processes checkpoint. siwatch never checkpoints unguarded.
    var hasWALResetBug: Bool
    /// Replicas that were seen on the server within an hour.
    var replicas: [ReplicaStatus]?
    var queues: [QueueStatus]
    var apps: [AppStatus]
    var credentials: [CredentialCount]
    var overdue: [String: Int]
    var checks: CheckStatus
    var breakers: [BreakerReport]
    /// Clients whose tokens Apple has not accepted within an interval.
    var unprovenClients: [ClientStatus]
    var refusedClients: [RefusedClient]
    /// How long a check of every token takes.
    var rounds: [AppRound]
    var unknownCanaries: [UnknownCanary]
    var otherTeams: [OtherTeam]
    var waitingGrants: WaitingGrants
    var waitingRevocations: WaitingRevocationCounts
    var quarantined: [String: Int]
    var signingKeys: Int
    var signingKeysFetchedAt: Timestamp?
    /// When `siwatch backup` last wrote a copy of the file. Nil if it never has, and on a server.
    var backedUpAt: Timestamp?

    /// - Parameter known: a report from a moment ago. Its slow figures are not read again.
    init(of configuration: Configuration, in store: any CredentialStore, knowing known: StatusReport? = nil) async throws {
        let database = try configuration.namedDatabase()
        self.database = database.name
        switch database {
        case .file:
            isRunning = database.isLocked
            sqlite = try store.version
        case .server:
            postgresql = try store.version
            let fleet = store.fleet
            let (time, replicas) = (try await fleet?.time ?? .earliest, try await fleet?.replicas())
            self.replicas = replicas
            isRunning = replicas?.contains { $0.isLiving(at: time) } ?? false
        }
        hasWALResetBug = database.hasWALResetBug
        let now = try await FleetMembership.clock(of: store).now
        at = now
        aliveAt = try await store.aliveAt
        isSilent = isRunning && max(aliveAt ?? .earliest, database.lockedAt ?? .earliest) < now.advanced(by: .seconds(-60))
        insertObstacle = if let known { known.insertObstacle } else { try await database.insertObstacle(in: store) }
        queues = try await store.queues()
        apps = try await store.apps()
        credentials = try await store.credentialCounts()
        overdue = try await store.overdueChecks(at: now)
        checks = try await store.checks()
        breakers = BreakerReport.all(try await store.breakers(), of: apps)
        let watched = configuration.clientIDs
        let unproven = try await store.clients().filter { client in
            watched.contains(client.clientID) && client.validAt.map { $0.advanced(by: configuration.refresh.interval) < now } ?? true
        }
        idleClients = known?.idleClients ?? []
        unprovenClients = []
        for client in unproven where !idleClients.contains(client.clientID) {
            if try await store.hasScheduledCredentials(clientID: client.clientID) {
                unprovenClients.append(client)
            } else {
                idleClients.insert(client.clientID)
            }
        }
        refusedClients = try await store.refusedClients(of: configuration, at: now)
        if let known {
            (rounds, waitingGrants, waitingRevocations) = (known.rounds, known.waitingGrants, known.waitingRevocations)
            quarantined = known.quarantined
        } else {
            rounds = try await CheckRounds(store).rounds(configuration.refresh, of: configuration.apps.map(\.name))
            waitingGrants = WaitingGrants(try await store.waitingGrants(upTo: WaitingGrants.mostCounted), configured: watched)
            waitingRevocations = try await store.waitingRevocations()
            quarantined = try await store.quarantineCounts()
        }
        unknownCanaries = try await store.unknownCanaries(of: configuration)
        otherTeams = try await store.otherTeams(than: configuration)
        let keys = try await store.signingKeys()
        signingKeys = keys.count
        signingKeysFetchedAt = keys.map(\.lastSeenAt).max()
        backedUpAt = try await store.backedUpAt
    }

    /// Clients without a token that Apple could be asked about. There is nothing to report on them yet.
    private var idleClients: Set<String>

    private enum CodingKeys: CodingKey {
        case version, database, isRunning, aliveAt, isSilent, insertObstacle, sqlite, postgresql, hasWALResetBug, replicas
        case queues, apps, credentials, overdue, checks, breakers, unprovenClients, refusedClients, rounds, unknownCanaries, otherTeams
        case waitingGrants, waitingRevocations, quarantined, signingKeys, signingKeysFetchedAt, backedUpAt
    }
}
