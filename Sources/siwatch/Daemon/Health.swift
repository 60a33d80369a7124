// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import NIOConcurrencyHelpers
import ServiceLifecycle

/// Tells when the daemon is ready and when it no longer is. It is the last service in the group, so it hears of a stop first.
final class Health: Service {
    let progress: LoopProgress
    let database: DatabaseWatch
    let notifier = SystemdNotifier()
    private let doorWatch: DoorWatch?
    private let context: DaemonContext
    private let state = NIOLockedValueBox(State())

    private struct State {
        /// Nil once it has started.
        var phase: String? = "starting"
        var stoppingSince: ContinuousClock.Instant?
    }

    init(of daemon: Daemon) {
        context = daemon.context
        doorWatch = daemon.door?.watch
        progress = LoopProgress(
            lanes: daemon.lanes,
            pollInterval: context.configuration.queues.pollInterval,
            longestSilence: context.store.longestSilence,
            writer: daemon.writer
        )
        database = DatabaseWatch(context)
    }

    private var trouble: String? {
        database.displacement ?? context.membership.trouble(clockSkew: context.configuration.queues.clockSkew)
    }

    /// Why this process is not ready, for people; nil while every loop turns, from the first turn of every loop until a stop begins.
    ///
    /// - Parameter member: whose other troubles count; nil for both.
    func obstacle(for member: ServedPages.Member? = nil) -> String? {
        let ofBackends = database.insertObstacle.map { "backends cannot insert: \($0)" }
        let troubles = troubles(besides: (member == .tables ? nil : doorWatch?.trouble) ?? (member == .door ? nil : ofBackends))
        return troubles.isEmpty ? nil : troubles.joined(separator: "; ")
    }

    /// The same for a report, one sentence each.
    var troubles: [String] { troubles(besides: doorWatch?.trouble) }

    private func troubles(besides other: String?) -> [String] {
        if let reason = unready { return [reason] }
        let known = trouble ?? other
        return [known, progress.trouble(besides: known)].compactMap(\.self)
    }

    /// That siwatch starts or stops, and what holds up a start.
    private var unready: String? {
        guard let phase = state.withLockedValue(\.phase) else { return nil }
        guard stoppingSince == nil, let cause = trouble ?? doorWatch?.trouble ?? progress.refusal else { return phase }
        return "\(phase): \(cause)"
    }

    /// Whether every loop has turned, and no stop is under way.
    var isStarted: Bool { state.withLockedValue(\.phase) == nil }

    var stoppingSince: ContinuousClock.Instant? { state.withLockedValue(\.stoppingSince) }

    /// Whether systemd may be told of progress: every loop turns or hears of the trouble, or a stop is under way, which has its own limit.
    var isAlive: Bool { stoppingSince != nil || progress.hung.isEmpty }

    func run() async throws {
        if await progress.waitForFirstTurns() {
            state.withLockedValue { $0.phase = nil }
            await tell(.ready, within: .seconds(10))
            // The figures follow within seconds. Until then `systemctl status` would go on saying that siwatch starts.
            await tell(.status("ready"), within: .seconds(1))
            context.logger.log(.ready)
            try? await gracefulShutdown()
        }
        // Ended without a stop, because something else has failed.
        guard Task.isShuttingDownGracefully else { return }
        state.withLockedValue { $0 = State(phase: "stopping", stoppingSince: .now) }
        await tell(.stopping, within: .seconds(1))
        context.logger.log(.stopping)
    }

    private func tell(_ message: SystemdNotifier.Message, within timeout: Duration) async {
        do {
            try await notifier.notify(message, within: timeout)
        } catch {
            context.logger.log(.systemdNotTold, ["error": "\(error)"])
        }
    }
}
