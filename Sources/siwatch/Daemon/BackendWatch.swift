// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import NIOConcurrencyHelpers

/// Notices when backends cannot insert. They then lose each sign-in and notification, while empty queues look well.
struct BackendWatch: Sendable {
    /// How often to look. A backend's own busy timeout, five seconds, is the longest that a look takes on a file.
    static let interval = Duration.seconds(10)

    private let store: any CredentialStore
    private let database: DatabaseLocation
    private let telemetry: Telemetry
    private let found = NIOLockedValueBox<(obstacle: String?, isFull: Bool, at: Timestamp?)>((nil, false, nil))
    private let clock: WallClock

    init(_ store: any CredentialStore, at database: DatabaseLocation, clock: WallClock, telemetry: Telemetry) {
        self.clock = clock
        self.store = store
        self.database = database
        self.telemetry = telemetry
    }

    /// Why backends cannot insert, as of the last look. Nil if they can.
    var trouble: String? { found.withLockedValue(\.obstacle) }

    /// When it last looked.
    var lookedAt: Timestamp? { found.withLockedValue(\.at) }

    func look() async {
        let now: String?
        do {
            now = try await database.insertObstacle(in: store)
        } catch is CancellationError {
            return
        } catch {
            now = "\(error)".printable
        }
        let isFull = database.space?.isFull ?? false
        let before = found.withLockedValue { found in
            defer { found = (now, isFull, clock.now) }
            return found
        }
        telemetry.observe(insertObstacle: now)
        // While nothing is to be written, no commit fails or succeeds.
        if isFull != before.isFull { telemetry.observe(isDiskFull: isFull) }
    }

    var service: Recurring {
        Recurring(every: Self.interval, onFailure: { _ in }) { await look() }
    }
}
