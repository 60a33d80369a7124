// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// When the breaker of an app opens and closes. The figures are those of `[breaker]`.
package struct BreakerRules: Sendable, Equatable {
    /// How many answers it remembers.
    package var window: Int
    /// Both have to be exceeded.
    package var maxRejections: Int
    package var maxRejectedPercent: Int
    /// How long a rejection waits before it is believed; at most the interval, after which the user is asked about again.
    package let settle: Duration
    /// How long a confirmation holds: everybody has been asked about once more by then.
    package var confirmation: Duration

    package init(
        window: Int = 500,
        maxRejections: Int = 20,
        maxRejectedPercent: Int = 5,
        settle: Duration = .seconds(900),
        policy: RefreshPolicy = RefreshPolicy()
    ) {
        self.window = window
        self.maxRejections = maxRejections
        self.maxRejectedPercent = maxRejectedPercent
        self.settle = min(settle, policy.interval)
        confirmation = policy.longestInterval
    }

    /// How often Apple is asked about an app while its breaker is open.
    package static let probeInterval = Duration.seconds(30)
    /// Canaries of an app: each takes a probe an hour while the breaker is open, and there are 120.
    package static let mostCanaries = 20
    /// How long after rejections out of proportion an operator may say that they were real.
    package static let episodeMemory = Duration.seconds(2 * 86_400)
    /// A canary is asked about at most once in this time, beside its daily check.
    package static let canaryInterval = Duration.seconds(3600)

    /// Probes that show whether answers are normal again: a tenth of the window, and so many that one rejection is allowed.
    package var trialLength: Int {
        min(window, max(window / 10, (100 + maxRejectedPercent - 1) / maxRejectedPercent))
    }

    func isTooGreatAShare(_ rejections: Int, of answers: Int) -> Bool {
        rejections * 100 > answers * maxRejectedPercent
    }
}
