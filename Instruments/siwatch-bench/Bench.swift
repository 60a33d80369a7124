// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import DaemonHarness
import Foundation

@main
struct Bench: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch-bench",
        abstract: "What siwatch does in a second, beside what this machine could do in the same run.",
        discussion: """
            Look at the ratios: the figures alone say as much about the machine, and about who else uses it, as about siwatch. Each limit \
            is measured before siwatch and again after it; the mean stands in front, both in brackets. Where they lie far apart, repeat.
            """
    )

    @Option(name: .customLong("only"), help: "A part to measure. Repeat for several. (default: all)")
    var parts: [Part] = []

    @Option(help: "How many notifications to settle.")
    var notifications = 20_000

    @Option(help: "How many credentials to refresh.")
    var refreshes = 10_000

    @Option(help: "How many notifications to insert one by one.")
    var inserts = 200

    @Option(help: "How many people to sign in by code, one by one.")
    var codes = 500

    @Option(help: "How many clients to let wait for changes over HTTP.")
    var waiting = 1_000

    @Option(help: "How many credentials a large table has, ascending. Repeat for several.")
    var sizes = [10_000, 100_000, 1_000_000, 10_000_000]

    @Option(help: "For how many minutes to keep siwatch under full load.")
    var minutes = 3

    @Option(help: "The same of PostgreSQL.")
    var postgresSizes = [10_000, 10_000_000]

    @Option(help: "How many notifications to queue at once on PostgreSQL, for several siwatch to share.")
    var queued = 80_000

    @Option(help: "How often to repeat, by turns, what is compared on PostgreSQL.")
    var rounds = 3

    @Option(help: "For how many minutes to hold a snapshot of PostgreSQL open.")
    var snapshotMinutes = 1

    @Option(help: "How many credentials to move to PostgreSQL.")
    var moved = 1_000_000

    @Option(help: "How many credentials to seal anew under a new key.")
    var credentials = 100_000

    @Option(help: "How often to kill siwatch meanwhile.")
    var kills = 20

    @Option(help: "After how many seconds to give up.")
    var limit = 7200

    func validate() throws {
        // A rate needs the time between two commits at least.
        guard notifications >= 2_000 else { throw ValidationError("Fewer than 2000 notifications are over too soon to be measured.") }
        guard [sizes, postgresSizes].allSatisfy({ $0 == $0.sorted() && $0.allSatisfy { (1...100_000_000).contains($0) } }) else {
            throw ValidationError("Sizes ascend, from 1 to 100000000.")
        }
        guard [refreshes, inserts, codes, waiting, minutes, queued, rounds, snapshotMinutes, moved, kills].allSatisfy({ $0 >= 1 }) else {
            throw ValidationError("There is nothing to measure.")
        }
        guard credentials >= 5_000 else { throw ValidationError("Fewer than 5000 credentials are sealed too soon to be measured.") }
    }

    func run() async throws {
        let machine = try await Machine.description()
        let sections = try await interruptible(within: .seconds(limit)) {
            var sections: [Section] = []
            for part in parts.isEmpty ? Part.allCases : parts { sections.append(try await measure(part)) }
            return sections
        }
        print("\nsiwatch-bench: \(machine)\n")
        if parts.isEmpty || parts.contains(where: \.isOnServer) { print("\(try await BenchServer.description())\n") }
        for section in sections { print(section) }
    }

    private func measure(_ part: Part) async throws -> Section {
        switch part {
        case .notifications: try await NotificationBenchmark(count: notifications).run()
        case .refreshes: try await RefreshBenchmark(count: refreshes).run()
        case .scale: try await ScaleBenchmark(sizes: sizes, users: notifications, store: .sqlite).run()
        case .codes: try await CodeBenchmark(count: codes, notifications: notifications).run()
        case .endurance:
            try await EnduranceBenchmark(length: .seconds(minutes * 60), notifications: notifications, refreshes: refreshes).run()
        case .latency: try await LatencyBenchmark(count: inserts, store: .sqlite).run()
        case .door: try await DoorBenchmark(notifications: notifications, codes: codes, clients: waiting).run()
        case .keyTurnover: try await keyTurnover(on: .sqlite).run()
        case .postgresNotifications: try await FleetBenchmark(count: queued, rounds: rounds).run()
        case .postgresRefreshes: try await StoreRefreshBenchmark(count: refreshes, rounds: rounds).run()
        case .postgresLatency: try await LatencyBenchmark(count: inserts, store: .postgres).run()
        case .postgresTrigger: try await GateBenchmark(rounds: rounds).run()
        case .postgresSnapshot: try await SnapshotBenchmark(length: .seconds(snapshotMinutes * 60), users: refreshes).run()
        case .postgresMove: try await MoveBenchmark(size: moved).run()
        case .postgresScale: try await ScaleBenchmark(sizes: postgresSizes, users: notifications, store: .postgres).run()
        case .postgresKeyTurnover: try await keyTurnover(on: .postgres).run()
        }
    }

    private func keyTurnover(on store: Store) -> KeyTurnoverBenchmark {
        KeyTurnoverBenchmark(credentials: credentials, kills: kills, notifications: notifications, store: store)
    }
}

/// A part that can run alone.
enum Part: String, CaseIterable, ExpressibleByArgument {
    case notifications, refreshes, codes, latency, door, scale, endurance
    case keyTurnover = "key-turnover"
    case postgresNotifications = "postgres-notifications"
    case postgresRefreshes = "postgres-refreshes"
    case postgresLatency = "postgres-latency"
    case postgresTrigger = "postgres-trigger"
    case postgresSnapshot = "postgres-snapshot"
    case postgresMove = "postgres-move"
    case postgresScale = "postgres-scale"
    case postgresKeyTurnover = "postgres-key-turnover"

    var isOnServer: Bool { rawValue.hasPrefix("postgres-") }
}

/// Runs what blocks its thread.
func onThread<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result {
    try await withCheckedThrowingContinuation { done in Thread.detachNewThread { done.resume(with: Swift.Result(catching: work)) } }
}

func say(_ line: String) { FileHandle.standardError.write(Data("\(line)\n".utf8)) }
