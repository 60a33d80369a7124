// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// How often things happened lately, to some minutes.
package struct RecentCounts<Label: Hashable & Sendable>: Sendable {
    private struct Part {
        var since: Timestamp
        var counts: [Label: Int] = [:]
    }

    private let part: Duration
    private let memory: Duration
    private var parts: [Part] = []

    package init(in part: Duration, over memory: Duration) {
        (self.part, self.memory) = (part, memory)
    }

    package mutating func note(_ label: Label, by number: Int = 1, at now: Timestamp) {
        let isCurrent = parts.last.map { $0.since <= now && now < $0.since.advanced(by: part) } ?? false
        if !isCurrent { parts = recent(memory, at: now) + [Part(since: now)] }
        parts[parts.count - 1].counts[label, default: 0] += number
    }

    /// - Parameter duration: nil for all that is remembered.
    package func sum(_ counted: Set<Label>, within duration: Duration? = nil, at now: Timestamp) -> Int {
        recent(duration ?? memory, at: now).reduce(0) { sum, part in
            sum + part.counts.reduce(0) { counted.contains($1.key) ? $0 + $1.value : $0 }
        }
    }

    /// Without what is too old, or dated ahead since the clock was put back.
    private func recent(_ duration: Duration, at now: Timestamp) -> [Part] {
        parts.filter { $0.since <= now && now < $0.since.advanced(by: duration) }
    }
}

/// What became of the checks of each app within the last three hours, as far as this process settled them.
final class RecentChecks: Sendable {
    private let counts = NIOLockedValueBox<[String: RecentCounts<RefreshLabel>]>([:])

    func note(_ label: RefreshLabel, of app: String, by number: Int, at now: Timestamp) {
        counts.withLockedValue { $0[app, default: RecentCounts(in: .minutes(5), over: .hours(3))].note(label, by: number, at: now) }
    }

    func all(at now: Timestamp) -> [AppChecks] {
        counts.withLockedValue { counts in
            counts.sorted { $0.key < $1.key }.map { app, counts in
                AppChecks(
                    app: app,
                    answered: counts.sum([.valid, .unnamed, .rejected], within: .hours(1), at: now),
                    rejected: counts.sum([.rejected], within: .hours(1), at: now),
                    asked: counts.sum(Set(RefreshLabel.allCases), at: now),
                    throttled: counts.sum([.throttled], at: now)
                )
            }
        }
    }
}

package struct AppChecks: Sendable, Equatable, Encodable {
    package var app: String
    /// Tokens that Apple accepted or rejected within the last hour. Those that it had never accepted before do not count as rejected.
    package var answered: Int
    package var rejected: Int
    package var asked: Int
    package var throttled: Int

    /// Whether Apple rejected more than one in ten, as the alert SiwatchMassRejection has it.
    package var isMassRejection: Bool { rejected > 20 && rejected * 10 > answered }
    /// Whether Apple answered 429 to more than a quarter, as the alert SiwatchChecksLate has it.
    package var isThrottled: Bool { throttled > 2 && throttled * 4 > asked }
}

extension Telemetry {
    package func recentChecks(at now: Timestamp) -> [AppChecks] { recent.all(at: now) }
}
