// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// When siwatch asks Apple about a credential again.
package struct RefreshPolicy: Sendable, Equatable {
    /// The shortest time between two answers about a token. Apple allows about one validation a day.
    package let interval: Duration
    /// The longest time for a request. Every lease is longer.
    package let timeout: Duration

    /// Takes any positive durations. A longer one than a century counts as a century, so that no sum overflows.
    package init(interval: Duration = .seconds(86_400), timeout: Duration = .seconds(15)) {
        self.interval = min(interval, Self.century)
        self.timeout = min(timeout, Self.century)
    }

    private static let century = Duration.seconds(36_525 * 86_400)

    /// The greatest share of the interval that is added, to spread the checks of users who signed in together.
    private static let spread = 0.05
    /// The greatest share of a back-off that is added, so that credentials that failed together are not asked about together again.
    private static let retrySpread = 0.25

    /// Waits after the first, second, … failure in a row. The first are short, because most failures last seconds; in an outage asking
    /// often does not help. The last one repeats.
    static let backOff: [Duration] = [
        .seconds(10), .seconds(30), .seconds(120), .seconds(600), .seconds(1800), .seconds(3600), .seconds(10_800), .seconds(21_600),
    ]

    /// The longest wait after a failure, for one credential.
    static let longestRetry = Duration.seconds(1800)

    /// The next check after an answer of any kind.
    package func nextCheck(afterAnswerAt answer: Timestamp, of credential: CredentialID) -> Timestamp {
        answer.advanced(by: interval).advanced(by: jitter(for: credential))
    }

    /// The longest time between an answer and the next check.
    package var longestInterval: Duration { interval * (1 + Self.spread) }

    /// How long after an answer that could not be believed siwatch asks Apple again. By then every other user has been asked about, with a
    /// request that left after that answer came.
    package var repetition: Duration { longestInterval + timeout }

    /// The first check of a new token. It comes within minutes, while the user is still there, to find out whether Apple ever accepted the
    /// token. An import comes long after its grant and with many others, so its checks are spread over an interval.
    package func firstCheck(grantedAt: Timestamp, of credential: CredentialID, now: Timestamp) -> Timestamp {
        let spread = isImport(grantedAt: grantedAt, now: now) ? interval : longestFirstWait
        return now.advanced(by: spread * (0.1 + 0.9 * credential.slot))
    }

    /// Whether a sign-in is told so late that its backend must have known it for long.
    package func isImport(grantedAt: Timestamp, now: Timestamp) -> Bool { grantedAt.duration(to: now) >= interval }

    /// The longest wait of a fresh sign-in's token for its first check: ten minutes, or less if checks are frequent.
    package var longestFirstWait: Duration { min(.seconds(600), interval * Self.spread) }

    /// The next try after `failures` failures in a row (1 or more), not before a reasonable `retryAfter` of Apple's.
    package func retry(
        afterFailures failures: Int,
        at now: Timestamp,
        retryAfter: Duration? = nil,
        of credential: CredentialID
    ) -> Timestamp {
        // A credential that failed in an outage must not wait for hours after the outage. The app's budget limits how many are asked about
        // meanwhile.
        let step = min(Self.backOff[min(max(failures, 1), Self.backOff.count) - 1], Self.longestRetry)
        let wait = max(step, min(retryAfter ?? .zero, longestDelay / (1 + Self.retrySpread)))
        return now.advanced(by: wait + wait * (Self.retrySpread * credential.slot))
    }

    /// Whether Apple has not confirmed a token for three intervals.
    package func isUnverified(_ credential: Credential, at now: Timestamp) -> Bool {
        guard let token = credential.token else { return false }
        return latest(credential.verifiedAt, token.key.grantedAt)!.duration(to: now) > interval * 3
    }

    /// How long a client stays paused after `failures` answers in a row that blame the configuration.
    package static func pause(afterFailures failures: Int) -> Duration {
        backOff[min(max(failures, 1), backOff.count) - 1]
    }

    package static let longestPause = backOff[backOff.count - 1]

    /// How long a claim holds a credential. Each unsettled claim doubles it, so that an answer that kills the process comes ever more
    /// rarely.
    package func lease(attempts: Int) -> Duration {
        min(shortestLease * (1 << min(max(attempts, 0), 10)), longestDelay)
    }

    private var shortestLease: Duration { max(.seconds(60), timeout * 2 + leaseMargin) }

    /// The time for the work after an answer, mainly its commit.
    private var leaseMargin: Duration { .seconds(30) }

    /// How long a claimed credential may wait before siwatch asks Apple, so that its lease outlives the request. Never shorter than the
    /// longest request.
    package var longestReserve: Duration { shortestLease - timeout - leaseMargin }

    /// The furthest possible due time from now. A later one came from a clock that has since been set back.
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
        // FNV's last letters hardly reach the leading bits. One round of MurmurHash3's finish brings them there.
        hash = (hash ^ hash >> 33) &* 0xff51_afd7_ed55_8ccd
        return Double(hash >> 11) / 0x1p53
    }
}
