// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What the tables, the host and the daemon say, once for all who ask: `siwatch status`, the page, `/status.json`, the metrics and systemd.
struct StatusReport {
    let configuration: Configuration
    /// By the clock of the store.
    var at: Timestamp
    /// Of the siwatch that speaks: the daemon, or the command that has read the tables.
    var version = Version.current
    var database: String
    var isRunning = false
    /// Whether siwatch has run for a minute and written nothing here in that time. A beat is due each ten seconds.
    var isSilent = false
    /// Why backends cannot insert; nil if they can, or if no daemon has the file open.
    var insertObstacle: String?
    /// Why backends can insert only while siwatch runs; nil if nothing is wrong.
    var insertWeakness: String?
    /// The version of the SQLite library. Nil on a server.
    var sqlite: String?
    /// The version of the PostgreSQL server. Nil on a file.
    var postgresql: String?
    /// Whether this SQLite can lose committed pages when other processes checkpoint. siwatch never checkpoints unguarded.
    var hasWALResetBug = false
    /// Replicas that were seen on the server within an hour.
    var replicas: [ReplicaStatus]?
    var tables: Overview
    var breakers: [BreakerReport] = []
    /// How far each delivery is that the database knows, by name. Nil before the tables were read.
    private(set) var deliveries: [String: DeliveryPosition]?
    var rounds: [AppRound] = []
    /// Since when a transaction keeps the database from clearing away what was erased. Nil if none does.
    var logPinnedSince: Timestamp?
    /// The bytes that are free on the disk of a file. Nil on a server.
    var freeSpace: UInt64?
    /// The process that works alone on a file.
    var lockHolder: String?
    /// What the daemon says of itself. Nil if the tables alone were read.
    var daemon: DaemonReport?

    // MARK: What findings need, and the document does not have

    /// When a siwatch that works alone on a file began.
    var runsSince: Timestamp?
    /// When the sealing key of that file was written, with the first tables.
    var installedAt: Timestamp?
    /// That something is there to be asked, and does not answer.
    var daemonSilence: Finding?
    /// Why the daemon could not be asked, for each place.
    var barriers: [String] = []
    /// What deliveries of the database still have to send that nobody has in the configuration, by name.
    private(set) var abandonedDeliveries: [String: DeliveryPosition] = [:]
    private(set) var foreignIDs = ForeignIDs()
}

extension StatusReport {
    /// Before the tables could be read.
    init(unreadOf configuration: Configuration, at now: Timestamp) throws(CommandFailure) {
        let database = try configuration.namedDatabase().name
        self.init(configuration: configuration, at: now, database: database, isRunning: true, tables: Overview(at: now))
    }

    /// - Parameters:
    ///   - known: a report from a moment ago. Its slow figures are not read again.
    ///   - counted: the daemon's, which knows how long a check of every token takes. Then nothing is tried and no tokens are counted again.
    init(
        of configuration: Configuration,
        in store: any CredentialStore,
        knowing known: StatusReport? = nil,
        counted: CheckRounds? = nil
    ) async throws {
        let database = try configuration.namedDatabase()
        let now = try await FleetMembership.clock(of: store).now
        let tables = try await store.overview(of: configuration, at: now, knowing: known?.tables.backlog)
        self.init(configuration: configuration, at: now, database: database.name, tables: tables)
        breakers = tables.apps.map { BreakerReport(tables.breakers[$0.app] ?? RejectionBreaker(), of: $0) }
        logPinnedSince = try await store.logPinnedSince
        try await look(at: database, store)
        if let known {
            (insertObstacle, rounds) = (known.insertObstacle, known.rounds)
            (deliveries, abandonedDeliveries, foreignIDs) = (known.deliveries, known.abandonedDeliveries, known.foreignIDs)
            return
        }
        // The daemon tries it all the time.
        if counted == nil { insertObstacle = try await database.insertObstacle(in: store) }
        rounds = try await (counted ?? CheckRounds(store)).rounds(configuration, tables.credentials)
        deliveries = try await store.deliveryPositions()
        abandonedDeliveries = try await store.abandonedDeliveries(of: configuration)
        let users = try await store.newestSignIns(upTo: 1000).filter { !$0.isEmpty && !ForgottenUser.isName($0) }
        foreignIDs = ForeignIDs(signIns: users.count, foreign: users.count { !AppleUserID.isLike($0.utf8) })
    }

    private mutating func look(at database: DatabaseLocation, _ store: any CredentialStore) async throws {
        insertWeakness = database.insertWeakness
        freeSpace = database.space?.free
        lockHolder = database.lockHolder
        switch database {
        case .file:
            isRunning = database.isLocked
            sqlite = try await store.version
        case .server:
            postgresql = try await store.version
            let fleet = store.fleet
            let time = try await fleet?.time ?? .earliest
            replicas = try await fleet?.replicas()
            isRunning = replicas?.contains { $0.isLiving(at: time) } ?? false
        }
        hasWALResetBug = database.hasWALResetBug && database.isOpenedByBackends(with: configuration.http)
        runsSince = database.lockedAt
        installedAt = runsSince == nil ? nil : DatabaseLock.lastWritten(configuration.encryption.keyFile)
        isSilent = isRunning && max(tables.aliveAt ?? .earliest, runsSince ?? .earliest) < at.advanced(by: .seconds(-60))
    }

    /// Puts another name in the place of each user's. What is served needs no password.
    mutating func hideUsers(as pseudonym: (String) -> String) {
        tables.unknownCanaries = tables.unknownCanaries.map { AppUserID(app: $0.app, userID: pseudonym($0.userID)) }
        for index in breakers.indices {
            breakers[index].rejectedCanaries = breakers[index].rejectedCanaries.map {
                CredentialID(clientID: $0.clientID, userID: pseudonym($0.userID))
            }
        }
    }

    // MARK: Of the clients

    /// Clients whose tokens Apple has not accepted within an interval. A check may come somewhat later, and an hour late.
    var unprovenClients: [ClientStatus] {
        let proof = tables.at.advanced(by: .zero - configuration.refreshPolicy.longestInterval - .hours(1))
        return tables.clients.filter {
            $0.isScheduled && configuration.clientIDs.contains($0.clientID) && ($0.validAt ?? .earliest) < proof
        }
    }

    /// When Apple last accepted a token or a code of a configured client.
    func acceptedAt(_ clientID: String) -> Timestamp? {
        guard configuration.clientIDs.contains(clientID) else { return nil }
        return tables.clients.first { $0.clientID == clientID }?.validAt
    }
}

/// The document of `siwatch status --json` and `/status.json`.
extension StatusReport: Encodable {
    func encode(to encoder: any Encoder) throws {
        let backlog = tables.backlog
        try encoder.encode(findings.members)
        try encoder.encode([
            "at": at, "version": version, "database": database, "isRunning": isRunning, "aliveAt": tables.aliveAt, "isSilent": isSilent,
            "insertObstacle": insertObstacle, "insertWeakness": insertWeakness, "sqlite": sqlite, "postgresql": postgresql,
            "hasWALResetBug": hasWALResetBug, "replicas": replicas, "freeSpace": freeSpace, "lockHolder": lockHolder, "daemon": daemon,
        ])
        try encoder.encode([
            "queues": tables.queues, "apps": tables.apps, "credentials": tables.credentials, "overdue": tables.overdue,
            "checks": tables.checks, "breakers": breakers, "deliveries": deliveries, "unprovenClients": unprovenClients,
            "refusedClients": tables.refusedClients,
            "rounds": rounds, "unknownCanaries": tables.unknownCanaries, "otherTeams": tables.otherTeams,
            "waitingGrants": backlog.waitingGrants.naming(configuration.clientIDs), "rejectedSignIns": tables.rejectedSignIns,
            "waitingRevocations": backlog.waitingRevocations, "quarantined": backlog.quarantined, "signingKeys": tables.signingKeys,
            "signingKeysFetchedAt": tables.signingKeysFetchedAt, "backedUpAt": tables.backedUpAt, "logPinnedSince": logPinnedSince,
            "newestNotification": tables.notifications.first, "sealingKeys": tables.sealed.keys,
        ])
    }
}
