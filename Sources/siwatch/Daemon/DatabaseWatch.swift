// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import NIOConcurrencyHelpers

/// Notices when the database file is moved, removed or replaced under the daemon. From then on backends insert elsewhere, and nobody reads
/// what siwatch writes.
struct DatabaseWatch: Sendable {
    private let context: DaemonContext
    private let found = NIOLockedValueBox<String?>(nil)

    init(_ context: DaemonContext) {
        self.context = context
    }

    /// What is wrong with the file, as of the last look. Nil if nothing is wrong, and on a server.
    var trouble: String? { found.withLockedValue { $0 } }

    func look() {
        let now = context.store.displacement(from: context.configuration.database.path)
        let before = found.withLockedValue { found in
            defer { found = now }
            return found
        }
        guard now != before else { return }
        if let now { context.logger.log(.databaseDisplaced, ["error": "\(now)"]) } else { context.logger.log(.databaseInPlace) }
    }

    var service: Recurring {
        Recurring(every: context.configuration.queues.pollInterval, onFailure: { _ in }) { look() }
    }
}

/// Notices when backends cannot insert. They then lose each sign-in and notification, while empty queues look well.
struct BackendWatch: Sendable {
    /// How often to look. A backend's own busy timeout, five seconds, is the longest that a look takes on a file.
    static let interval = Duration.seconds(10)

    private let context: DaemonContext
    private let found = NIOLockedValueBox<(obstacle: String?, isFull: Bool, at: Timestamp?)>((nil, false, nil))

    init(_ context: DaemonContext) {
        self.context = context
    }

    /// Why backends cannot insert, as of the last look. Nil if they can.
    var trouble: String? { found.withLockedValue(\.obstacle) }

    /// When it last looked.
    var lookedAt: Timestamp? { found.withLockedValue(\.at) }

    func look() async {
        let now: String?
        do {
            now = try await context.database.insertObstacle(in: context.store)
        } catch is CancellationError {
            return
        } catch {
            now = "\(error)".printable
        }
        let isFull = context.database.space?.isFull ?? false
        let before = found.withLockedValue { found in
            defer { found = (now, isFull, context.clock.now) }
            return found
        }
        context.telemetry.observe(insertObstacle: now)
        // While nothing is to be written, no commit fails or succeeds.
        if isFull != before.isFull { context.telemetry.observe(isDiskFull: isFull) }
    }

    var service: Recurring {
        Recurring(every: Self.interval, onFailure: { _ in }) { await look() }
    }
}
