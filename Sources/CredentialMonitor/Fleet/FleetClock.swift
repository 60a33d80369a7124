// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// The clock that a fleet shares: its database's. Between two looks, a clock that never steps carries it on.
package final class FleetClock: Sendable {
    private let local: WallClock
    private let uptime: @Sendable () -> Duration
    /// The time of the shared clock at uptime zero.
    private let origin: NIOLockedValueBox<Timestamp>
    /// The uptime at the start of the last successful renewal.
    private let askedAt = NIOLockedValueBox<Duration?>(nil)

    /// Shows the local time until the first look at the shared clock. `uptime` never steps.
    package init(local: WallClock, uptime: @escaping @Sendable () -> Duration) {
        self.local = local
        self.uptime = uptime
        origin = NIOLockedValueBox(local.now.advanced(by: .zero - uptime()))
    }

    package var wallClock: WallClock {
        WallClock(
            now: { self.now },
            sleep: { [local] deadline, tolerance in
                try await local.sleep(until: local.now.advanced(by: self.now.duration(to: deadline)), tolerance: tolerance)
            }
        )
    }

    private var now: Timestamp { origin.withLockedValue { $0 }.advanced(by: uptime()) }

    /// How far this machine's clock is ahead of the shared clock.
    package var skew: Duration { now.duration(to: local.now) }

    /// Whether this machine's clock differs from the shared clock by more than `most`.
    package func isOff(by most: Duration) -> Bool { skew > most || skew < .zero - most }

    /// Whether the last successful renewal is less than `time` ago. After that, this replica does not know what the others do.
    package func hearsOthers(within time: Duration) -> Bool { askedAt.withLockedValue { $0 }.map { uptime() - $0 < time } ?? false }

    package func look(at fleet: any Fleet) async throws {
        let askedAt = uptime()
        goBy(try await fleet.time, askedAt: askedAt, answeredAt: uptime())
    }

    /// Takes in a renewal, which shows the other replicas and the database's time.
    func observe(_ time: Timestamp, askedAt: Duration, answeredAt: Duration) {
        self.askedAt.withLockedValue { $0 = askedAt }
        goBy(time, askedAt: askedAt, answeredAt: answeredAt)
    }

    /// Corrects the origin by a reading taken between `askedAt` and `answeredAt`. While our origin agrees with the reading, it stays.
    private func goBy(_ time: Timestamp, askedAt: Duration, answeredAt: Duration) {
        let possible = time.advanced(by: .zero - answeredAt)...time.advanced(by: .zero - askedAt)
        origin.withLockedValue { $0 = min(max($0, possible.lowerBound), possible.upperBound) }
    }
}
