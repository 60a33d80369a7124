// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What `siwatch status`, the page and `/status.json` say.
struct StatusReport: Encodable {
    /// By the clock of the store.
    var at: Timestamp
    /// Of the siwatch that speaks: the daemon, or the command that has read the tables.
    var version = Version.current
    var database: String
    var isRunning = false
    /// The last sign of life of any siwatch on this database.
    var aliveAt: Timestamp?
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
    var queues: [QueueStatus] = []
    var apps: [AppStatus] = []
    var credentials: [CredentialCount] = []
    var overdue: [String: Int] = [:]
    /// Credentials with a token and no good answer for three intervals, by app.
    var unverified: [String: Int] = [:]
    var checks = CheckStatus()
    var breakers: [BreakerReport] = []
    /// Clients whose tokens Apple has not accepted within an interval.
    var unprovenClients: [ClientStatus] = []
    var refusedClients: [RefusedClient] = []
    /// How long a check of every token takes.
    var rounds: [AppRound] = []
    var unknownCanaries: [UnknownCanary] = []
    var otherTeams: [OtherTeam] = []
    var waitingGrants = WaitingGrants(WaitingGrantCounts(), configured: [])
    /// The newest sign-ins of clients that nearly all came to nothing.
    var rejectedSignIns: [RejectedSignIns] = []
    var waitingRevocations = WaitingRevocationCounts()
    var quarantined: [String: Int] = [:]
    var signingKeys = 0
    var signingKeysFetchedAt: Timestamp?
    /// When `siwatch backup` last wrote a copy of the file, or noted another program's. Nil if it never has.
    var backedUpAt: Timestamp?
    /// Since when a transaction keeps the database from clearing away what was erased. Nil if none does.
    var logPinnedSince: Timestamp?
    /// When the newest verified notification arrived.
    var newestNotification: Timestamp?
    /// The bytes that are free on the disk of a file. Nil on a server.
    var freeSpace: UInt64?
    /// The process that works alone on a file.
    var lockHolder: String?
    /// What the daemon says of itself. Nil if the tables alone were read.
    var daemon: DaemonReport?

    private enum CodingKeys: CodingKey {
        case at, version, database, isRunning, aliveAt, isSilent, insertObstacle, insertWeakness, sqlite, postgresql, hasWALResetBug,
            replicas
        case queues, apps, credentials, overdue, unverified, checks, breakers, unprovenClients, refusedClients, rounds, unknownCanaries,
            otherTeams
        case waitingGrants, rejectedSignIns, waitingRevocations, quarantined, signingKeys, signingKeysFetchedAt, backedUpAt, logPinnedSince
        case newestNotification, freeSpace, lockHolder, daemon
    }

    // MARK: What findings need, and the document does not have

    /// When the newest hundred verified notifications arrived, latest first.
    var notifications: [Timestamp] = []
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
    /// Clients with tokens that the configuration no longer names.
    private(set) var clientsThatLeft: [ClientStatus] = []
    private(set) var foreignIDs = ForeignIDs()
    /// When Apple last accepted a token or a code, by client.
    private(set) var acceptedAt: [String: Timestamp] = [:]
    /// Apps of which Apple has accepted a token or a code.
    private(set) var provingApps: Set<String> = []
    /// Clients without a token that Apple could be asked about. There is nothing to report on them yet.
    private var idleClients: Set<String> = []
}

extension StatusReport {
    /// Before the tables could be read.
    init(unreadOf configuration: Configuration, at now: Timestamp) throws(CommandFailure) {
        self.init(at: now, database: try configuration.namedDatabase().name, isRunning: true)
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
        self.init(at: try await FleetMembership.clock(of: store).now, database: database.name)
        try await read(database, of: configuration, in: store)
        // The daemon tries it all the time.
        if counted == nil { insertObstacle = if let known { known.insertObstacle } else { try await database.insertObstacle(in: store) } }
        try await readTables(of: configuration, in: store)
        try await readClients(of: configuration, in: store, idle: known?.idleClients ?? [])
        if let known {
            (rounds, waitingGrants, waitingRevocations) = (known.rounds, known.waitingGrants, known.waitingRevocations)
            (quarantined, abandonedDeliveries) = (known.quarantined, known.abandonedDeliveries)
            (clientsThatLeft, foreignIDs) = (known.clientsThatLeft, known.foreignIDs)
        } else {
            rounds = try await (counted ?? CheckRounds(store)).rounds(configuration.refresh, of: configuration.apps.map(\.name))
            let waiting = try await store.waitingGrants(at: at, upTo: WaitingGrants.mostCounted)
            waitingGrants = WaitingGrants(waiting, configured: configuration.clientIDs)
            waitingRevocations = try await store.waitingRevocations()
            quarantined = try await store.quarantineCounts()
            abandonedDeliveries = try await store.abandonedDeliveries(of: configuration)
            clientsThatLeft = try await store.clientsThatLeft(configuration)
            foreignIDs = try await ForeignIDs(store)
        }
    }

    private mutating func read(_ database: DatabaseLocation, of configuration: Configuration, in store: any CredentialStore) async throws {
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
        aliveAt = try await store.aliveAt
        runsSince = database.lockedAt
        installedAt = runsSince == nil ? nil : DatabaseLock.lastWritten(configuration.encryption.keyFile)
        isSilent = isRunning && max(aliveAt ?? .earliest, runsSince ?? .earliest) < at.advanced(by: .seconds(-60))
    }

    private mutating func readTables(of configuration: Configuration, in store: any CredentialStore) async throws {
        queues = try await store.queues()
        apps = try await store.apps()
        credentials = try await store.credentialCounts()
        overdue = try await store.overdueChecks(at: at)
        unverified = try await store.unverifiedCredentials()
        checks = try await store.checks()
        breakers = BreakerReport.all(try await store.breakers(), of: apps)
        unknownCanaries = try await store.unknownCanaries(of: configuration)
        otherTeams = try await store.otherTeams(than: configuration)
        let keys = try await store.signingKeys()
        signingKeys = keys.count
        signingKeysFetchedAt = keys.map(\.lastSeenAt).max()
        backedUpAt = try await store.backedUpAt
        logPinnedSince = try await store.logPinnedSince
        notifications = try await store.newestNotifications(upTo: 100)
        newestNotification = notifications.first
    }

    private mutating func readClients(of configuration: Configuration, in store: any CredentialStore, idle: Set<String>) async throws {
        let watched = configuration.clientIDs
        let clients = try await store.clients().filter { watched.contains($0.clientID) }
        acceptedAt = Dictionary(clients.compactMap { client in client.validAt.map { (client.clientID, $0) } }, uniquingKeysWith: max)
        provingApps = Set(clients.filter { $0.validAt != nil }.map(\.app))
        // A check may come somewhat later, and an hour late.
        let proof = at.advanced(by: .zero - configuration.refreshPolicy.longestInterval - .hours(1))
        idleClients = idle
        for client in clients where (client.validAt ?? .earliest) < proof && !idle.contains(client.clientID) {
            if try await store.hasScheduledCredentials(clientID: client.clientID) {
                unprovenClients.append(client)
            } else {
                idleClients.insert(client.clientID)
            }
        }
        refusedClients = try await store.refusedClients(of: configuration, at: at)
        rejectedSignIns = try await store.rejectedSignIns(since: at.advanced(by: .hours(-1))).filter { watched.contains($0.clientID) }
    }

    /// Puts another name in the place of each user's. What is served needs no password.
    mutating func hideUsers(as pseudonym: (String) -> String) {
        for index in unknownCanaries.indices { unknownCanaries[index].userID = pseudonym(unknownCanaries[index].userID) }
        for index in breakers.indices {
            breakers[index].rejectedCanaries = breakers[index].rejectedCanaries.map {
                CredentialID(clientID: $0.clientID, userID: pseudonym($0.userID))
            }
        }
    }
}

/// A report as its JSON document.
struct StatusDocument: Encodable {
    var report: StatusReport

    func encode(to encoder: any Encoder) throws {
        try report.encode(to: encoder)
        try Verdict(report.findings).encode(to: encoder)
    }
}
