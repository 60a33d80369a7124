// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// When a credential is asked about again.
package struct RefreshPolicy: Sendable, Equatable {
    /// At most one answered validation per credential in this time. Apple allows about one a day.
    package var interval: Duration
    /// The longest a request may take; every lease outlives it.
    package var timeout: Duration

    package init(interval: Duration = .seconds(86_400), timeout: Duration = .seconds(15)) {
        self.interval = interval
        self.timeout = timeout
    }

    /// Up to this share of the interval is added to spread the checks of users who signed in together.
    private static let spread = 0.05

    /// Waits after the first, second, … failure in a row, front-weighted: most failures are over in seconds, and one that is not
    /// is an outage, where asking often helps nobody. The last one repeats.
    static let backOff: [Duration] = [
        .seconds(10), .seconds(30), .seconds(120), .seconds(600), .seconds(1800), .seconds(3600), .seconds(10_800), .seconds(21_600),
    ]

    /// The next check after an answer, whatever it said.
    package func nextCheck(afterAnswerAt answer: Timestamp, of credential: CredentialID) -> Timestamp {
        answer.advanced(by: interval).advanced(by: jitter(for: credential))
    }

    /// The first check of a new token: an interval after the grant and after any earlier answer, never before now.
    package func firstCheck(
        grantedAt: Timestamp,
        answeredAt: Timestamp?,
        of credential: CredentialID,
        now: Timestamp
    ) -> Timestamp {
        let earliest = max(now, grantedAt.advanced(by: interval), answeredAt?.advanced(by: interval) ?? now)
        return earliest.advanced(by: jitter(for: credential))
    }

    /// The next try after `failures` failures in a row (1 or more), not before `retryAfter` where Apple named a time.
    package func retry(
        afterFailures failures: Int,
        at now: Timestamp,
        retryAfter: Duration? = nil,
        of credential: CredentialID
    ) -> Timestamp {
        let step = Self.backOff[min(max(failures, 1), Self.backOff.count) - 1]
        let wait = max(step, min(retryAfter ?? .zero, longestDelay))
        return now.advanced(by: wait + wait * (credential.slot / 4))
    }

    /// How long an app stays paused after `failures` answers in a row that blame its configuration.
    package static func pause(afterFailures failures: Int) -> Duration {
        backOff[min(max(failures, 1), backOff.count) - 1]
    }

    /// How long a claim holds a credential. Each claim that was never settled doubles it, so that an answer which kills the
    /// process is met ever more rarely.
    package func lease(attempts: Int) -> Duration {
        max(.seconds(60), timeout * 2 + .seconds(30)) * (1 << min(max(attempts, 0), 10))
    }

    /// The furthest that a due time can lie ahead; what lies beyond it came from a clock that has since been set back.
    package var longestDelay: Duration {
        max(interval + interval * Self.spread, Self.backOff[Self.backOff.count - 1] * 1.25)
    }

    private func jitter(for credential: CredentialID) -> Duration {
        interval * (Self.spread * credential.slot)
    }
}

extension CredentialID {
    /// A fixed place in 0..<1 from the names alone (FNV-1a), so that the spread needs no random number.
    var slot: Double {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in userID.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        for byte in clientID.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        hash ^= hash >> 32
        return Double(hash & 0xffff_ffff) / 4_294_967_296
    }
}
