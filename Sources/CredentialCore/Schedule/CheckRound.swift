// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One check of every token of an app, at the rate that the configuration allows.
package struct CheckRound: Sendable, Equatable {
    /// The tokens that siwatch asks Apple about.
    package var tokens: Int
    package var requestsPerSecond: Double
    /// The time in which siwatch should check each token once.
    package var interval: Duration

    package init(tokens: Int, requestsPerSecond: Double, interval: Duration) {
        self.tokens = tokens
        self.requestsPerSecond = requestsPerSecond
        self.interval = interval
    }

    private var seconds: Double { Double(tokens) / max(requestsPerSecond, 0.001) }

    package var duration: Duration { .seconds(min(seconds, Self.longest)) }

    /// The duration in intervals. Above 1 the checks fall ever further behind.
    package var ratio: Double { seconds / interval.inSeconds }

    package var fits: Bool { ratio <= 1 }

    /// A whole rate at which the round fits, with a tenth to spare for repeated questions.
    package var sufficientRate: Int {
        Int(min((Double(tokens) * 1.1 / interval.inSeconds).rounded(.up), Self.longest))
    }

    /// Ten thousand years in seconds.
    private static let longest = 3.2e11
}
