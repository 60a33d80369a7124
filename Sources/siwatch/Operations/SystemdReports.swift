// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import ServiceLifecycle

/// Tells systemd's watchdog of progress, and shows figures in `systemctl status`. It is the first service in the group, so it lasts through
/// a stop.
struct SystemdReports: Service {
    let notifier: SystemdNotifier
    let readiness: Readiness
    let reader: any CredentialReader
    let clock: WallClock
    let watchdogInterval: Duration?

    private static let statusInterval = Duration.seconds(5)

    func run() async throws {
        guard notifier.isHeard else { return try await gracefulShutdown() }
        await withDiscardingTaskGroup { group in
            if let watchdogInterval {
                group.addTask {
                    // Three tries in each interval.
                    try? await Recurring(every: watchdogInterval / 3, onFailure: { _ in }) {
                        if readiness.isAlive { try notifier.notify(.watchdog) }
                    }.run()
                }
            }
            group.addTask {
                try? await Recurring(every: Self.statusInterval, onFailure: { _ in }) {
                    try await notifier.notify(.status(status()))
                }.run()
            }
        }
    }

    /// For example `12 authorized, 3 revoked, 0 notFound; waiting: 0 notification, 0 grant, 0 revocation; 0 checks overdue`.
    private func status() async throws -> String {
        if case .bad(let reason) = readiness.condition { return reason }
        let credentials = try await reader.credentialCounts()
        let states = CredentialState.allCases.map { state in
            let count = credentials.filter { $0.state == state.rawValue }.reduce(0) { $0 + $1.count }
            return "\(count) \(state.rawValue)"
        }
        let queues = try await reader.queues().map { "\($0.depth) \($0.queue)" }
        let overdue = try await reader.overdueChecks(at: clock.now)
        return """
            \(states.joined(separator: ", ")); waiting: \(queues.joined(separator: ", ")); \
            \(overdue.values.reduce(0, +)) checks overdue
            """
    }
}
