// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import ServiceLifecycle

/// Tells systemd's watchdog of progress, and shows figures in `systemctl status`. It is the first service in the group, so it lasts through
/// a stop.
struct SystemdReports: Service {
    let health: Health
    let status: @Sendable () async throws -> StatusReport
    let watchdogInterval: Duration?

    private static let statusInterval = Duration.seconds(5)

    func run() async throws {
        guard health.notifier.isHeard else { return try await gracefulShutdown() }
        await withDiscardingTaskGroup { group in
            if let watchdogInterval {
                group.addTask {
                    // Three tries in each interval.
                    try? await Recurring(every: watchdogInterval / 3, onFailure: { _ in }) {
                        if health.isAlive { try health.notifier.notify(.watchdog) }
                    }.run()
                }
            }
            group.addTask {
                try? await Recurring(every: Self.statusInterval, onFailure: { _ in }) {
                    try await health.notifier.notify(.status(sentence()))
                }.run()
            }
        }
    }

    /// For example `12 authorized, 3 revoked, 0 notFound; waiting: 0 notification, 0 sign-in, 0 revocation; 0 checks overdue`.
    private func sentence() async throws -> String {
        if let obstacle = health.obstacle() { return obstacle }
        let tables = try await status().tables
        let states = CredentialState.allCases.map { state in
            let count = tables.credentials.filter { $0.state == state.rawValue }.reduce(0) { $0 + $1.count }
            return "\(count) \(state.rawValue)"
        }
        let queues = tables.queues.map { "\($0.depth) \($0.name)" }
        return """
            \(states.joined(separator: ", ")); waiting: \(queues.joined(separator: ", ")); \
            \(tables.overdue.values.reduce(0, +)) checks overdue
            """
    }
}
