// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One check of every token of an app, as fast as the configuration allows it.
package struct CheckRound: Sendable, Equatable {
    /// Those that Apple is asked about.
    package var tokens: Int
    package var requestsPerSecond: Double
    /// In which each token is to be checked once.
    package var interval: Duration

    package init(tokens: Int, requestsPerSecond: Double, interval: Duration) {
        self.tokens = tokens
        self.requestsPerSecond = requestsPerSecond
        self.interval = interval
    }

    private var seconds: Double { Double(tokens) / max(requestsPerSecond, 0.001) }

    package var duration: Duration { .seconds(min(seconds, Self.longest)) }

    /// The same in intervals: above 1 the checks fall ever further behind.
    package var ratio: Double { seconds / interval.inSeconds }

    package var fits: Bool { ratio <= 1 }

    /// A whole rate at which it fits, with a tenth to spare for what has to be asked again.
    package var sufficientRate: Int {
        Int(min((Double(tokens) * 1.1 / interval.inSeconds).rounded(.up), Self.longest))
    }

    /// Ten thousand years in seconds.
    private static let longest = 3.2e11
}

/// Which apps' rounds do not fit, so that it is said once.
package struct CheckRoundWatch: Sendable {
    private var misfits: Set<String> = []

    package init() {}

    package enum News: Sendable, Equatable {
        case fitsNoMore
        case fitsAgain
    }

    /// - Returns: what is new of an app; nil where nothing is.
    package mutating func note(_ round: CheckRound, of app: String) -> News? {
        if !round.fits { return misfits.insert(app).inserted ? .fitsNoMore : nil }
        // Sign-ins come and go: what nearly fits is not said again and again.
        guard round.ratio <= 0.95, misfits.remove(app) != nil else { return nil }
        return .fitsAgain
    }
}
