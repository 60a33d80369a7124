// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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

    /// Waits after the first, second, … failure in a row: short at first, because most failures last seconds. The last one repeats.
    static let backOff: [Duration] = [
        .seconds(10), .seconds(30), .seconds(120), .seconds(600), .seconds(1800), .seconds(3600), .seconds(10_800), .seconds(21_600),
    ]

    static let longestRetry = Duration.seconds(1800)

    package func nextCheck(afterAnswerAt answer: Timestamp, of credential: CredentialID) -> Timestamp {
        answer.advanced(by: interval + interval * (Self.spread * credential.slot))
    }

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
    func isImport(grantedAt: Timestamp, now: Timestamp) -> Bool { grantedAt.duration(to: now) >= interval }

    /// The longest wait of a fresh sign-in's token for its first check: ten minutes, or less if checks are frequent.
    var longestFirstWait: Duration { min(.seconds(600), interval * Self.spread) }

    /// The next try after `failures` failures in a row (1 or more), not before a reasonable `retryAfter` of Apple's.
    package func retry(
        afterFailures failures: Int,
        at now: Timestamp,
        retryAfter: Duration? = nil,
        of credential: CredentialID
    ) -> Timestamp {
        // A credential that failed in an outage must not wait for hours after it. The app's budget limits how many are asked about.
        let step = min(Self.backOff.wait(afterFailures: failures), Self.longestRetry)
        let wait = max(step, min(retryAfter ?? .zero, longestDelay / (1 + Self.retrySpread)))
        return now.advanced(by: wait + wait * (Self.retrySpread * credential.slot))
    }

    /// Whether Apple has not confirmed a token for three intervals.
    package func isUnverified(_ credential: Credential, at now: Timestamp) -> Bool {
        guard let token = credential.token else { return false }
        return latest(credential.verifiedAt, token.key.grantedAt)!.duration(to: now) > interval * 3
    }

    /// How long a client stays paused after `failures` answers in a row that blame the configuration.
    package static func pause(afterFailures failures: Int) -> Duration { backOff.wait(afterFailures: failures) }

    package static let longestPause = backOff.wait(afterFailures: .max)

    /// How long a claim holds a credential. Each unsettled claim doubles it, so that a deadly answer comes ever more rarely.
    package func lease(attempts: Int) -> Duration {
        min(shortestLease * (1 << min(max(attempts, 0), 10)), longestDelay)
    }

    private var shortestLease: Duration { max(.seconds(60), timeout * 2 + Self.leaseMargin) }

    /// The time for the work after an answer, mainly its commit.
    private static let leaseMargin = Duration.seconds(30)

    /// How long a claimed credential may wait before siwatch asks Apple, so that its lease outlives the request.
    package var longestReserve: Duration { shortestLease - timeout - Self.leaseMargin }

    /// The furthest possible due time from now. A later one came from a clock that has since been set back.
    package var longestDelay: Duration { max(repetition, Self.longestPause * (1 + Self.retrySpread), shortestLease) }
}

extension [Duration] {
    /// The wait after so many failures in a row, 1 or more. The last one repeats.
    func wait(afterFailures failures: Int) -> Duration { self[Swift.min(Swift.max(failures, 1), count) - 1] }
}

extension CredentialID {
    /// A fixed place in 0..<1 from the names alone (FNV-1a), so that the spread needs no random number.
    var slot: Double {
        var hash = clientID.utf8.fnv1a(after: userID.utf8.fnv1a())
        // FNV's last letters hardly reach the leading bits. One round of MurmurHash3's finish brings them there.
        hash = (hash ^ hash >> 33) &* 0xff51_afd7_ed55_8ccd
        return Double(hash >> 11) / 0x1p53
    }
}

/// One check of every token of an app, at the rate that the configuration allows.
package struct CheckRound: Sendable, Equatable {
    package var tokens: Int
    package var requestsPerSecond: Double
    package var interval: Duration

    package init(tokens: Int, requestsPerSecond: Double, interval: Duration) {
        (self.tokens, self.requestsPerSecond, self.interval) = (tokens, requestsPerSecond, interval)
    }

    private var seconds: Double { Double(tokens) / max(requestsPerSecond, 0.001) }

    package var duration: Duration { .seconds(min(seconds, Self.longest)) }

    /// The duration in intervals. Above 1 the checks fall ever further behind.
    package var ratio: Double { seconds / interval.inSeconds }

    package var fits: Bool { ratio <= 1 }

    /// A whole rate at which the round fits, with a tenth to spare for repeated questions.
    package var sufficientRate: Int { Int(min((Double(tokens) * 1.1 / interval.inSeconds).rounded(.up), Self.longest)) }

    /// Ten thousand years in seconds.
    private static let longest = 3.2e11
}
