// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import SQLiteStore

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows queues, credentials and keys, whether or not the daemon runs.",
        discussion: "With --watch it shows them anew every second until Ctrl-C, with what is settled in a second."
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Look again every second.") var watch = false

    func validate() throws {
        guard !(watch && output.json) else { throw ValidationError("--watch is for people and --json is for programs.") }
    }

    func run() async throws {
        let configuration = try options.readConfiguration()
        do {
            if watch { return try await StatusWatch(configuration: configuration).run() }
            let report = try await StatusReport(of: configuration)
            try output.print(report, StatusPage(report, at: WallClock.system.now).lines.joined(separator: "\n"))
        } catch {
            throw CommandFailure(database: error)
        }
    }
}

/// What `siwatch status` says.
struct StatusReport: Encodable {
    var version = Version.current
    var database: String
    var isRunning: Bool
    var sqlite: String
    /// Whether this SQLite can lose committed pages when others checkpoint; ours never do so unguarded.
    var hasWALResetBug: Bool
    var queues: [QueueStatus]
    var apps: [AppStatus]
    var credentials: [CredentialCount]
    var overdue: [String: Int]
    var checks: CheckStatus
    var breakers: [BreakerReport]
    /// Clients with tokens, of which Apple has accepted none within an interval.
    var unprovenClients: [ClientStatus]
    /// How long a check of every token takes.
    var rounds: [AppRound]
    var unknownCanaries: [UnknownCanary]
    var waitingGrants: WaitingGrants
    var quarantined: [String: Int]
    var signingKeys: Int
    var signingKeysFetchedAt: Timestamp?

    /// - Parameter known: what was found a moment ago, and takes too long to be looked for again.
    init(of configuration: Configuration, knowing known: StatusReport? = nil) async throws {
        database = configuration.database.path
        isRunning = DatabaseLock.isHeld(database: database)
        let store = try SQLiteStore.openForReading(DatabaseFile.existing(in: configuration))
        defer { try? store.close() }
        sqlite = SQLiteLibrary.version
        hasWALResetBug = SQLiteLibrary.hasWALResetBug
        queues = try await store.queues()
        apps = try await store.apps()
        credentials = try await store.credentialCounts()
        overdue = try await store.overdueCredentials(before: WallClock.system.now.advanced(by: .seconds(-60)), upTo: Self.mostCounted)
        checks = try await store.checks()
        breakers = BreakerReport.all(try await store.breakers(), of: apps)
        let now = WallClock.system.now
        let watched = Set(configuration.apps.flatMap(\.clientIDs))
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
        if let known {
            rounds = known.rounds
        } else {
            rounds = try await CheckRounds(store).rounds(configuration.refresh, of: configuration.apps.map(\.name))
        }
        if let known {
            waitingGrants = known.waitingGrants
        } else {
            let counts = try await store.waitingGrants(datedAfter: now.advanced(by: configuration.queues.clockSkew), upTo: Self.mostWaiting)
            waitingGrants = WaitingGrants(counts, configured: watched)
        }
        unknownCanaries = try await store.unknownCanaries(of: configuration)
        quarantined = if let known { known.quarantined } else { try await store.quarantineCounts() }
        let keys = try await store.signingKeys()
        signingKeys = keys.count
        signingKeysFetchedAt = keys.map(\.lastSeenAt).max()
    }

    static let mostCounted = 100_000
    /// Of sign-ins that wait no more are looked at.
    static let mostWaiting = 10_000

    /// Clients without a token that Apple could be asked about: of them there is nothing to say yet.
    private var idleClients: Set<String>

    private enum CodingKeys: CodingKey {
        case version, database, isRunning, sqlite, hasWALResetBug, queues, apps, credentials, overdue, checks, breakers, unprovenClients
        case rounds, unknownCanaries, waitingGrants, quarantined, signingKeys, signingKeysFetchedAt
    }
}

/// The sign-ins that stay in their queue although the daemon runs, by what they wait for.
struct WaitingGrants: Encodable {
    /// For an app of the configuration to name their client.
    var unknownClients: [Client] = []
    /// For the daemon to start with the configuration that names their client.
    var forStart = 0
    /// For the time they are dated.
    var forTime = 0
    /// For a siwatch that takes authorization codes.
    var withCode: Int

    struct Client: Encodable {
        var clientID: String
        var count: Int
    }

    init(_ counts: WaitingGrantCounts, configured: Set<String>) {
        withCode = counts.withCode
        var unknown: [String: Int] = [:]
        for group in counts.putOff {
            if !configured.contains(group.clientID) {
                unknown[group.clientID, default: 0] += group.count
            } else if group.isAhead {
                forTime += group.count
            } else {
                forStart += group.count
            }
        }
        unknownClients = unknown.map { Client(clientID: $0.key, count: $0.value) }
            .sorted { ($1.count, $0.clientID) < ($0.count, $1.clientID) }
    }

    /// A sentence for each thing that is waited for.
    var sentences: [String] {
        let putOff = unknownClients.reduce(forStart + forTime) { $0 + $1.count }
        let more = putOff < StatusReport.mostWaiting ? "" : " or more"
        var sentences: [String] = []
        if !unknownClients.isEmpty {
            let names = unknownClients.prefix(3).map { "\($0.clientID.printable) \($0.count)" }.joined(separator: ", ")
            let others = unknownClients.count > 3 ? " and \(unknownClients.count - 3) others" : ""
            let count = unknownClients.reduce(0) { $0 + $1.count }
            sentences.append(
                "\(count)\(more) sign-ins wait a week for an app of the configuration to name their client: \(names)\(others)"
            )
        }
        if forStart > 0 { sentences.append("\(forStart)\(more) sign-ins wait for siwatch's next start, which takes their clients in") }
        if forTime > 0 { sentences.append("\(forTime)\(more) sign-ins are dated ahead of this host's clock and wait for their time") }
        if withCode > 0 {
            let more = withCode < StatusReport.mostWaiting ? "" : " or more"
            sentences.append("\(withCode)\(more) sign-ins bring an authorization code, which is not taken yet")
        }
        return sentences
    }
}
