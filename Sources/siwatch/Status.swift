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
    /// Clients of which Apple has accepted no token within an interval.
    var unprovenClients: [ClientStatus]
    var unknownCanaries: [UnknownCanary]
    var quarantined: [String: Int]
    var signingKeys: Int
    var signingKeysFetchedAt: Timestamp?

    /// - Parameter quarantined: what was found of the quarantine a moment ago, so that it is not read again.
    init(of configuration: Configuration, quarantined known: [String: Int]? = nil) async throws {
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
        unprovenClients = try await store.clients().filter { client in
            watched.contains(client.clientID) && client.validAt.map { $0.advanced(by: configuration.refresh.interval) < now } ?? true
        }
        unknownCanaries = try await store.unknownCanaries(of: configuration)
        quarantined = if let known { known } else { try await store.quarantineCounts() }
        let keys = try await store.signingKeys()
        signingKeys = keys.count
        signingKeysFetchedAt = keys.map(\.lastSeenAt).max()
    }

    static let mostCounted = 100_000
}
