// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import NIOConcurrencyHelpers
import ServiceLifecycle

/// Notices when the database file is moved, removed or replaced under the daemon: from then on backends insert elsewhere, and nobody reads
/// what siwatch writes. And when backends cannot insert: they lose each sign-in and notification, while empty queues look well.
struct DatabaseWatch: Sendable {
    private struct Found {
        var displacement: String?
        var insertObstacle: String?
        var isFull = false
        var triedAt: Timestamp?
    }

    private let context: DaemonContext
    private let found = NIOLockedValueBox(Found())

    init(_ context: DaemonContext) {
        self.context = context
    }

    // As of the last look.
    var displacement: String? { found.withLockedValue(\.displacement) }
    var insertObstacle: String? { found.withLockedValue(\.insertObstacle) }
    var triedAt: Timestamp? { found.withLockedValue(\.triedAt) }

    var services: [any Service] {
        [
            Recurring(every: context.configuration.queues.pollInterval, onFailure: { _ in }) { lookAtFile() },
            // A backend's own busy timeout, five seconds, is the longest that a try takes on a file.
            Recurring(every: .seconds(10), onFailure: { _ in }) { await tryInserts() },
        ]
    }

    private func lookAtFile() {
        let displacement = context.store.displacement(from: context.configuration.database.path)
        found.withLockedValue { $0.displacement = displacement }
        context.telemetry.episode(.databaseDisplaced, until: .databaseInPlace, displacement)
    }

    private func tryInserts() async {
        let obstacle: String?
        do {
            obstacle = try await context.database.insertObstacle(in: context.store)
        } catch is CancellationError {
            return
        } catch {
            obstacle = "\(error)".printable
        }
        let isFull = context.database.space?.isFull ?? false
        let wasFull = found.withLockedValue { found in
            defer { (found.insertObstacle, found.isFull, found.triedAt) = (obstacle, isFull, context.clock.now) }
            return found.isFull
        }
        context.telemetry.observe(insertObstacle: obstacle)
        // While nothing is to be written, no commit fails or succeeds.
        if isFull != wasFull { context.telemetry.observe(isDiskFull: isFull) }
    }
}
