// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// When the breaker of an app opens and closes. The figures are those of `[breaker]`.
package struct BreakerRules: Sendable, Equatable {
    package var window: Int
    /// Disproportion exceeds both this and `maxRejectedPercent`.
    package var maxRejections: Int
    package var maxRejectedPercent: Int
    /// How long a rejection waits before it is believed. At most the interval, after which siwatch asks about the user again.
    package let settle: Duration

    package init(
        window: Int = 500,
        maxRejections: Int = 20,
        maxRejectedPercent: Int = 5,
        settle: Duration = .seconds(900),
        policy: RefreshPolicy = RefreshPolicy()
    ) {
        (self.window, self.maxRejections, self.maxRejectedPercent) = (window, maxRejections, maxRejectedPercent)
        self.settle = min(settle, policy.interval)
    }

    /// How often siwatch asks Apple about an app while the app's breaker is open.
    package static let probeInterval = Duration.seconds(30)
    /// The most canaries of an app. Each takes one of the 120 probes an hour while the breaker is open.
    package static let mostCanaries = 20
    /// How long after disproportionate rejections an operator may confirm that they were real.
    package static let episodeMemory = Duration.seconds(2 * 86_400)
    /// The shortest time between two questions about a canary, beside its daily check.
    package static let canaryInterval = Duration.seconds(3600)

    /// The number of probes that shows whether answers are normal again: a tenth of the window, but enough to allow one rejection.
    var trialLength: Int { min(window, max(window / 10, (100 + maxRejectedPercent - 1) / maxRejectedPercent)) }

    func isTooGreatAShare(_ rejections: Int, of answers: Int) -> Bool {
        rejections * 100 > answers * maxRejectedPercent
    }
}

/// The last answers, oldest first. Coded as text, one digit each, 1 for a rejection.
struct AnswerWindow: Sendable, Equatable, Codable {
    private var answers: [Bool] = []
    private(set) var rejections = 0

    init() {}

    var count: Int { answers.count }

    mutating func append(_ isRejection: Bool, capacity: Int) {
        answers.append(isRejection)
        if isRejection { rejections += 1 }
        if answers.count > capacity {
            let excess = answers.prefix(answers.count - capacity)
            rejections -= excess.count { $0 }
            answers.removeFirst(excess.count)
        }
    }

    init(from decoder: any Decoder) throws {
        answers = try decoder.singleValueContainer().decode(String.self).utf8.map { $0 == UInt8(ascii: "1") }
        rejections = answers.count { $0 }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(String(decoding: answers.map { UInt8(ascii: $0 ? "1" : "0") }, as: UTF8.self))
    }
}
