// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How often and how fast Apple may be asked, as configured, and what follows from that for whoever looks.
struct FleetLimits: Sendable {
    /// So few that they bind: a wave has more to ask than goes into a second.
    let requestsPerSecond: Int
    let interval: Duration
    static let concurrency = 8

    /// - Parameter isLong: so that tokens are asked about a second time, and so many that this takes a share of what may be asked.
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

    /// In which whoever is due is asked about, where somebody asks: the twentieth of the interval within which a sign-in is first due, and
    /// twice what as many take, because others become due meanwhile.
    func longestWait(for due: Int) -> Duration { interval / 20 + .seconds(due * 2 / requestsPerSecond) }

    // MARK: What is asked in a second

    /// What gathers while nobody asks, a fifth of a second's worth, what a second brings, and what has its permit and goes out late where a
    /// process has had no processor: a code in each hand.
    var mostCodesInASecond: Int { requestsPerSecond * 12 / 10 + Self.concurrency }

    /// All else has permits of its own. Late may be what is in the hands of two lanes, and as many checks again in reserve.
    var mostOthersInASecond: Int { requestsPerSecond * 12 / 10 + Self.concurrency * 3 }

    // MARK: What a process that dies has in hand

    /// Who exchanges a code waits for its commit, so that each hand has one.
    static let mostCodesLost = concurrency

    /// A check in each hand and as many in reserve, and those whose answers wait for a commit, which takes no second.
    var mostChecksLost: Int { Self.concurrency * 2 + requestsPerSecond }
}
