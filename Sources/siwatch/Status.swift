// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation
import SQLiteStore

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows queues, credentials and keys, whether or not the daemon runs."
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Print JSON, for programs.") var json = false

    func run() async throws {
        let configuration = try options.readConfiguration()
        let report: StatusReport
        do {
            report = try await StatusReport(of: configuration)
        } catch {
            throw CommandFailure(database: error)
        }
        if json {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
            print(String(decoding: try encoder.encode(report), as: UTF8.self))
        } else {
            print(report.text)
        }
    }
}

/// What `siwatch status` says. The JSON form is stable within one `schema`.
struct StatusReport: Encodable {
    var schema = 1
    var version = Version.current
    var database: String
    var isRunning: Bool
    var sqlite: String
    /// Whether this SQLite can lose committed pages when others checkpoint; ours never do so unguarded.
    var hasWALResetBug: Bool
    var queues: [QueueStatus]
    var credentials: [CredentialCount]
    var overdue: [String: Int]
    var quarantined: [String: Int]
    var signingKeys: Int
    var signingKeysFetchedAt: Int64?

    init(of configuration: Configuration) async throws {
        database = configuration.database.path
        let file = DatabaseFile(path: database)
        isRunning = DatabaseLock.isHeld(database: database)
        guard try file.inspect(isInUse: isRunning) != .none else {
            throw StoreOpenError("\(database) is not there yet; siwatch migrate creates it")
        }
        sqlite = SQLiteLibrary.version
        hasWALResetBug = SQLiteLibrary.hasWALResetBug
        let store = try SQLiteStore.openForReading(file)
        queues = try await store.queues()
        credentials = try await store.credentialCounts()
        overdue = try await store.overdueCredentials(before: WallClock.system.now.advanced(by: .seconds(-60)), upTo: 100_000)
        quarantined = try await store.quarantineCounts()
        let keys = try await store.signingKeys()
        signingKeys = keys.count
        signingKeysFetchedAt = keys.map(\.lastSeenAt.milliseconds).max()
        try store.close()
    }

    var text: String {
        var lines = [
            "siwatch \(version) \(isRunning ? "runs" : "does not run") on \(database)",
            "SQLite \(sqlite)\(hasWALResetBug ? ", with the WAL-reset bug: let backends set PRAGMA wal_autocheckpoint=0" : "")",
            "",
            "queue            waiting  oldest",
        ]
        for queue in queues {
            lines.append("\(queue.queue.padded(to: 14))\(String(queue.depth).padded(to: -10))  \(Self.time(queue.oldest))")
        }
        lines += ["", "app            state          credentials"]
        for count in credentials {
            lines.append("\(count.app.padded(to: 15))\(count.state.padded(to: 12))\(String(count.count).padded(to: -14))")
        }
        for (app, count) in overdue.sorted(by: { $0.key < $1.key }) where count > 0 {
            lines.append("\(app): \(count)\(count == 100_000 ? " or more" : "") checks are overdue by a minute or more")
        }
        lines += ["", "Apple's keys: \(signingKeys), last fetched \(Self.time(signingKeysFetchedAt))"]
        for (reason, count) in quarantined.sorted(by: { $0.key < $1.key }) {
            lines.append("quarantined as \(reason): \(count)")
        }
        return lines.joined(separator: "\n")
    }

    private static func time(_ milliseconds: Int64?) -> String {
        guard let milliseconds else { return "–" }
        return Date(timeIntervalSince1970: Double(milliseconds) / 1000).formatted(.iso8601)
    }
}

extension String {
    /// Padded with spaces, on the left where `width` is negative.
    fileprivate func padded(to width: Int) -> String {
        let padding = String(repeating: " ", count: max(abs(width) - count, 0))
        return width < 0 ? padding + self : self + padding
    }
}
