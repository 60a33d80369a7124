// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialSealing
import Foundation
import NIOConcurrencyHelpers
import PrometheusMetrics

/// Puts together what the running siwatch says of itself, for its page, `/status.json` and `siwatch status`.
///
/// It always answers, and soon: if the database does not, with the last figures and the reason.
actor StatusDesk {
    private let daemon: Daemon
    private let health: Health
    private let rounds: CheckRounds
    private let startedAt: Timestamp
    private let process = ProcessMetrics()
    private let replacement = NIOLockedValueBox<String?>(nil)
    private let reload: NIOLockedValueBox<DaemonReport.Reload>

    private var known: StatusReport?
    private var readAt: (tables: ContinuousClock.Instant, slow: ContinuousClock.Instant)?
    private var unread: String?
    private var isRefused = false
    /// Those who wait for the end of the read that is under way.
    private var waiting: [AsyncStream<Void>.Continuation] = []

    /// How long figures from the tables stand, so that many readers cost no more than one.
    private static let validity = Duration.seconds(1)
    /// The same for figures that count rows.
    private static let slowValidity = Duration.seconds(15)
    private static let longestDelay = Duration.seconds(30)

    init(of daemon: Daemon, _ health: Health) {
        (self.daemon, self.health) = (daemon, health)
        rounds = CheckRounds(daemon.context.store)
        startedAt = daemon.context.clock.now
        reload = NIOLockedValueBox(DaemonReport.Reload(at: startedAt))
    }

    private nonisolated var context: DaemonContext { daemon.context }

    nonisolated func noteReload(mistakes: [String] = [], needsRestart: [String] = []) {
        let news = DaemonReport.Reload(at: context.clock.now, mistakes: mistakes, needsRestart: needsRestart)
        reload.withLockedValue { $0 = news }
    }

    /// Reads the tables, however seldom somebody asks, counts the findings for the metric, and logs where sign-ins come to nothing.
    nonisolated var examination: Recurring {
        Recurring(every: Self.slowValidity, onFailure: { _ in }) { [context] in
            await self.observeTables()
            let report = try await self.report()
            let severities = report.findings.map(\.severity)
            for severity in Finding.Severity.allCases {
                context.telemetry.gauge(.findings, Double(severities.count { $0 == severity }), ["severity": severity.rawValue])
            }
            let rejected = report.tables.rejectedSignIns.map { ($0.clientID, $0.reason) }
            context.telemetry.observe(signInsRejected: Dictionary(rejected) { first, _ in first })
        }
    }

    /// Tries what was put in the place of this program, before anybody is told to restart.
    nonisolated var programWatch: Recurring {
        Recurring(every: .seconds(20), onFailure: { _ in }) { [source = context.configuration.source, replacement] in
            guard Self.isReplaced else { return }
            let obstacle = try await onOwnThread { HostCommand.obstacleToStart(with: source, as: Account.user) ?? "" }
            replacement.withLockedValue { $0 = obstacle }
        }
    }

    /// - Throws: `CommandFailure` if the configuration no longer names a database, as when its password file is gone.
    func report() async throws -> StatusReport {
        await readTables(within: .seconds(2))
        var report = try known ?? StatusReport(unreadOf: context.configuration, at: context.clock.now)
        report.insertObstacle = health.database.insertObstacle
        report.daemon = DaemonReport(
            host: ProcessInfo.processInfo.hostName,
            processID: ProcessInfo.processInfo.processIdentifier,
            startedAt: startedAt,
            isReplaced: Self.isReplaced,
            replacementObstacle: replacement.withLockedValue(\.self),
            troubles: health.troubles,
            insertsTriedAt: health.database.triedAt,
            tablesReadAt: known?.tables.at,
            tablesUnread: isOutdated ? unread : nil,
            reload: reload.withLockedValue { $0 },
            keyFileTrouble: context.configuration.keyFileTrouble(of: context.sealer),
            sealingKeyID: context.sealer.sealingKeyID,
            appleClockSkew: context.clockGuard.skew?.milliseconds,
            isClockHeld: context.clockGuard.trusted == nil,
            keyTrials: daemon.keyTrials.all,
            answers: context.telemetry.lastAnswers,
            absences: context.telemetry.absences(at: context.clock.now),
            checks: context.telemetry.recentChecks(at: context.clock.now),
            intakeObstacle: daemon.intakeWatch?.obstacle,
            refusals: daemon.door?.refusals.all ?? [],
            deliveries: context.telemetry.deliveries,
            keysDisbelievedAt: context.telemetry.keysDisbelievedAt,
            decisionPlantedAt: context.telemetry.decisionPlantedAt,
            openFiles: process.openFiles.map { Int($0) },
            mostOpenFiles: process.mostOpenFiles.flatMap { Int(exactly: $0) },
            warnings: context.output.warnings,
            lostLines: context.output.writer.lostLines
        )
        // The beat of this process is a commit, so an old one tells that nothing can be written.
        (report.at, report.isRunning) = (context.clock.now, true)
        return report
    }

    /// Whether the figures are so old that the database must be in trouble. A slow one may take seconds.
    private var isOutdated: Bool {
        guard let known else { return true }
        return known.tables.at.advanced(by: Self.longestDelay) < context.clock.now
    }

    /// Whether the program's file was replaced or removed. The kernel then adds a word to its path.
    private static var isReplaced: Bool {
        (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))?.hasSuffix(" (deleted)") ?? false
    }

    /// Reads the tables, unless somebody does so already or has just done so. A database that does not answer is waited for a moment only.
    private func readTables(within patience: Duration, validFor validity: Duration = StatusDesk.validity) async {
        if let readAt, ContinuousClock.now - readAt.tables <= validity { return }
        let (end, waiter) = AsyncStream<Void>.makeStream()
        waiting.append(waiter)
        if waiting.count == 1 {
            // Not a child of the asker, who does not wait for it to the end. It ends with the read.
            Task {
                await read()
                for waiter in waiting { waiter.finish() }
                waiting = []
            }
        }
        await withTaskGroup { group in
            group.addTask { for await _ in end {} }
            group.addTask { try? await Task.sleep(for: patience) }
            _ = await group.next()
            group.cancelAll()
        }
        if !waiting.isEmpty { unread = "no answer within \(patience.text)" }
    }

    private func read() async {
        let start = ContinuousClock.now
        let standing = known != nil && readAt.map { start - $0.slow < Self.slowValidity } ?? false ? known : nil
        do {
            var configuration = context.configuration
            configuration.refresh = daemon.refresh
            var report = try await StatusReport(of: configuration, in: context.store, knowing: standing, counted: rounds)
            report.hideUsers(as: context.telemetry.pseudonym)
            known = report
            (unread, isRefused) = (nil, false)
            readAt = (.now, standing == nil ? start : readAt?.slow ?? start)
        } catch {
            (unread, isRefused) = ("\(error)".printable, true)
            readAt = readAt.map { (.now, $0.slow) } ?? (.now, start)
        }
    }

    /// Sets the gauges of the tables. The figures of the last read stand until the next has ended.
    func observeTables() async {
        await readTables(within: .milliseconds(500), validFor: .zero)
        if isRefused { return context.telemetry.tablesUnread() }
        guard let known else { return }
        context.telemetry.observe(pausesOf: known.tables.apps)
        // One replica counts what all share.
        guard context.membership.keepsHouse else { return context.telemetry.leaveTablesToOthers() }
        context.telemetry.observe(known.tables)
        for round in known.rounds { context.telemetry.observe(round.round, of: round.app) }
    }
}
