// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// When a credential is asked about again.
package struct RefreshPolicy: Sendable, Equatable {
    /// At most one answered validation per token in this time. Apple allows about one a day.
    package let interval: Duration
    /// The longest a request may take; every lease outlives it.
    package let timeout: Duration

    /// Every positive duration is legal; what is longer than a century is a century, so that no sum overflows.
    package init(interval: Duration = .seconds(86_400), timeout: Duration = .seconds(15)) {
        self.interval = min(interval, Self.century)
        self.timeout = min(timeout, Self.century)
    }

    private static let century = Duration.seconds(36_525 * 86_400)

    /// Up to this share of the interval is added to spread the checks of users who signed in together.
    private static let spread = 0.05
    /// Up to this share of a back-off is added, so that those who failed together do not come back together.
    private static let retrySpread = 0.25

    /// Waits after the first, second, … failure in a row, front-weighted: most failures are over in seconds, and one that is not
    /// is an outage, where asking often helps nobody. The last one repeats.
    static let backOff: [Duration] = [
        .seconds(10), .seconds(30), .seconds(120), .seconds(600), .seconds(1800), .seconds(3600), .seconds(10_800), .seconds(21_600),
    ]

    /// The longest wait after a failure, for one credential.
    static let longestRetry = Duration.seconds(1800)

    /// The next check after an answer, whatever it said.
    package func nextCheck(afterAnswerAt answer: Timestamp, of credential: CredentialID) -> Timestamp {
        answer.advanced(by: interval).advanced(by: jitter(for: credential))
    }

    /// The longest time between an answer and the next check.
    package var longestInterval: Duration { interval * (1 + Self.spread) }

    /// How long after an answer that could not be believed Apple is asked again. Everybody else has been asked by then, with a request
    /// that left after that answer came.
    package var repetition: Duration { longestInterval + timeout }

    /// The first check of a new token: within minutes, so that it is known whether Apple ever accepted it while the user is still there.
    /// What is told long after its grant is an import, and many come together: an interval spreads those.
    package func firstCheck(grantedAt: Timestamp, of credential: CredentialID, now: Timestamp) -> Timestamp {
        let spread = isImport(grantedAt: grantedAt, now: now) ? interval : longestFirstWait
        return now.advanced(by: spread * (0.1 + 0.9 * credential.slot))
    }

    /// Whether a sign-in is told so late that its backend knew of it for long.
    package func isImport(grantedAt: Timestamp, now: Timestamp) -> Bool { grantedAt.duration(to: now) >= interval }

    /// The longest that a token of a sign-in that has just happened waits for its first check: ten minutes, or less where checks are
    /// frequent.
    package var longestFirstWait: Duration { min(.seconds(600), interval * Self.spread) }

    /// The next try after `failures` failures in a row (1 or more), not before `retryAfter` where Apple named a time within reason.
    package func retry(
        afterFailures failures: Int,
        at now: Timestamp,
        retryAfter: Duration? = nil,
        of credential: CredentialID
    ) -> Timestamp {
        // Who failed in an outage must not wait for hours after its end; how many are asked meanwhile is for the budget to limit.
        let step = min(Self.backOff[min(max(failures, 1), Self.backOff.count) - 1], Self.longestRetry)
        let wait = max(step, min(retryAfter ?? .zero, longestDelay / (1 + Self.retrySpread)))
        return now.advanced(by: wait + wait * (Self.retrySpread * credential.slot))
    }

    /// Whether Apple has not confirmed a token for three intervals.
    package func isUnverified(_ credential: Credential, at now: Timestamp) -> Bool {
        guard let token = credential.token else { return false }
        return latest(credential.verifiedAt, token.key.grantedAt)!.duration(to: now) > interval * 3
    }

    /// How long an app stays paused after `failures` answers in a row that blame its configuration.
    package static func pause(afterFailures failures: Int) -> Duration {
        backOff[min(max(failures, 1), backOff.count) - 1]
    }

    package static let longestPause = backOff[backOff.count - 1]

    /// How long a claim holds a credential. Each claim that was never settled doubles it, so that an answer which kills the
    /// process is met ever more rarely.
    package func lease(attempts: Int) -> Duration {
        min(shortestLease * (1 << min(max(attempts, 0), 10)), longestDelay)
    }

    private var shortestLease: Duration { max(.seconds(60), timeout * 2 + leaseMargin) }

    /// For what comes after the answer, its commit above all.
    private var leaseMargin: Duration { .seconds(30) }

    /// How long what is claimed may wait before Apple is asked, so that its lease outlives the request. No shorter than a request may take.
    package var longestReserve: Duration { shortestLease - timeout - leaseMargin }

    /// The furthest that a due time can lie ahead; what lies beyond it came from a clock that has since been set back.
    package var longestDelay: Duration {
        let longestBackOff = Self.backOff[Self.backOff.count - 1] * (1 + Self.retrySpread)
        return max(repetition, longestBackOff, shortestLease)
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
        // FNV's last letters hardly reach the leading bits; one round of MurmurHash3's finish brings them there.
        hash = (hash ^ hash >> 33) &* 0xff51_afd7_ed55_8ccd
        return Double(hash >> 11) / 0x1p53
    }
}
