// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The configured limits for requests to Apple, and the numbers that the test may see.
struct FleetLimits: Sendable {
    /// Low enough to bind: a wave has more to ask than fits into a second.
    let requestsPerSecond: Int
    let interval: Duration
    static let concurrency = 8

    /// - Parameter isLong: whether siwatch asks about tokens a second time, with so many tokens that this takes a share of the limit.
    init(isLong: Bool) {
        requestsPerSecond = isLong ? 75 : 30
        interval = .seconds(isLong ? 1800 : 600)
    }

    /// The table `refresh`.
    var configuration: String {
        """
        interval = "\(interval.components.seconds)s"
        max_requests_per_second = \(requestsPerSecond)
        max_concurrent_requests = \(Self.concurrency)
        """
    }

    /// The longest time until siwatch has asked about all due credentials. It is the twentieth of the interval, within which a sign-in is
    /// first due, and twice the time for this many, because others become due meanwhile.
    func longestWait(for due: Int) -> Duration { interval / 20 + .seconds(due * 2 / requestsPerSecond) }

    // MARK: Requests in a second

    /// The permits that gather while no replica asks, a fifth of a second's worth, plus those of a second. A process without a processor
    /// may also send requests late that have their permits: a code in each hand.
    var mostCodesInASecond: Int { requestsPerSecond * 12 / 10 + Self.concurrency }

    /// All other requests have permits of their own. The requests of two lanes' hands may be late, and as many checks again in reserve.
    var mostOthersInASecond: Int { requestsPerSecond * 12 / 10 + Self.concurrency * 3 }

    // MARK: Work in hand of a process that dies

    /// A hand with a code waits for the commit of its exchange, so each hand has one.
    static let mostCodesLost = concurrency

    /// A check in each hand and as many in reserve, plus the answers that wait for a commit, which takes less than a second.
    var mostChecksLost: Int { Self.concurrency * 2 + requestsPerSecond }
}
