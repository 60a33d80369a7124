// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// The clock that a fleet shares, its database's, as a clock that never steps carries it on between two looks. This machine's own may show
/// what it likes.
package final class FleetClock: Sendable {
    private let local: WallClock
    private let uptime: @Sendable () -> Duration
    /// What the shared clock showed when the uptime was zero.
    private let origin: NIOLockedValueBox<Timestamp>
    /// At which uptime the others were last asked about with success.
    private let askedAt = NIOLockedValueBox<Duration?>(nil)

    /// Shows the local time until it has heard of the shared one.
    ///
    /// - Parameter uptime: what a clock that never steps shows.
    package init(local: WallClock, uptime: @escaping @Sendable () -> Duration) {
        self.local = local
        self.uptime = uptime
        origin = NIOLockedValueBox(local.now.advanced(by: .zero - uptime()))
    }

    /// The shared clock.
    package var wallClock: WallClock {
        WallClock(
            now: { self.now },
            sleep: { [local] deadline, tolerance in
                try await local.sleep(until: local.now.advanced(by: self.now.duration(to: deadline)), tolerance: tolerance)
            }
        )
    }

    private var now: Timestamp { origin.withLockedValue { $0 }.advanced(by: uptime()) }

    /// By how much this machine's clock is ahead of the shared one.
    package var skew: Duration { now.duration(to: local.now) }

    /// Whether this machine's clock is so far off that something is wrong with it.
    package func isOff(by most: Duration) -> Bool { skew > most || skew < .zero - most }

    /// Whether the others were heard of lately: who was cut off or frozen for longer does not know what they are about.
    package func hearsOthers(within time: Duration) -> Bool { askedAt.withLockedValue { $0 }.map { uptime() - $0 < time } ?? false }

    /// Looks at the shared clock, before there is anything to do by it.
    package func look(at fleet: any Fleet) async throws {
        let askedAt = uptime()
        goBy(try await fleet.time, askedAt: askedAt, answeredAt: uptime())
    }

    /// The others have been heard of, and the time with them.
    func observe(_ time: Timestamp, askedAt: Duration, answeredAt: Duration) {
        self.askedAt.withLockedValue { $0 = askedAt }
        goBy(time, askedAt: askedAt, answeredAt: answeredAt)
    }

    /// Goes by what the shared clock showed at some moment in between; as long as that leaves ours possible, ours stays.
    private func goBy(_ time: Timestamp, askedAt: Duration, answeredAt: Duration) {
        let possible = time.advanced(by: .zero - answeredAt)...time.advanced(by: .zero - askedAt)
        origin.withLockedValue { $0 = min(max($0, possible.lowerBound), possible.upperBound) }
    }
}
