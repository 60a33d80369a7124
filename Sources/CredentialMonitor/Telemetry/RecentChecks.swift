// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// What became of the checks of each app within the last three hours, as far as this process settled them.
final class RecentChecks: Sendable {
    /// Some minutes, and how often each outcome came in them.
    private struct Part {
        var since: Timestamp
        var counts: [RefreshLabel: Int] = [:]
    }

    private static let part = Duration.minutes(5)
    private static let memory = Duration.hours(3)

    private let parts = NIOLockedValueBox<[String: [Part]]>([:])

    func note(_ label: RefreshLabel, of app: String, by number: Int, at now: Timestamp) {
        parts.withLockedValue { parts in
            var own = Self.recent(parts[app] ?? [], at: now)
            if own.last.map({ $0.since.advanced(by: Self.part) <= now }) ?? true { own.append(Part(since: now)) }
            own[own.count - 1].counts[label, default: 0] += number
            parts[app] = own
        }
    }

    /// By app.
    func all(at now: Timestamp) -> [AppChecks] {
        parts.withLockedValue { parts in
            parts.sorted { $0.key < $1.key }.map { app, parts in
                let parts = Self.recent(parts, at: now)
                let lastHour = parts.filter { now < $0.since.advanced(by: .hours(1)) }
                func sum(_ parts: [Part], _ counted: Set<RefreshLabel>) -> Int {
                    parts.reduce(0) { sum, part in sum + part.counts.reduce(0) { counted.contains($1.key) ? $0 + $1.value : $0 } }
                }
                return AppChecks(
                    app: app,
                    answered: sum(lastHour, [.valid, .unnamed, .rejected]),
                    rejected: sum(lastHour, [.rejected]),
                    asked: sum(parts, Set(RefreshLabel.allCases)),
                    throttled: sum(parts, [.throttled])
                )
            }
        }
    }

    /// Without what is too old, or dated ahead since the clock was put back.
    private static func recent(_ parts: [Part], at now: Timestamp) -> [Part] {
        parts.filter { $0.since <= now && now < $0.since.advanced(by: memory) }
    }
}

/// What became of the checks of one app.
package struct AppChecks: Sendable, Equatable, Encodable {
    package var app: String
    /// Tokens that Apple accepted or rejected within the last hour. Those that it had never accepted before do not count as rejected.
    package var answered: Int
    package var rejected: Int
    /// Checks within the last three hours.
    package var asked: Int
    package var throttled: Int

    /// Whether Apple rejected more than one in ten, as the alert SiwatchMassRejection has it.
    package var isMassRejection: Bool { rejected > 20 && rejected * 10 > answered }
    /// Whether Apple answered 429 to more than a quarter, as the alert SiwatchThrottled has it.
    package var isThrottled: Bool { throttled > 2 && throttled * 4 > asked }
}

extension Telemetry {
    /// What became of the latest checks of each app.
    package func recentChecks(at now: Timestamp) -> [AppChecks] { recent.all(at: now) }
}
