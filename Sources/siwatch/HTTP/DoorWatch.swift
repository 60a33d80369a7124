// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Notices when requests at the HTTP door find no database. The door has connections of its own, so nothing else may notice.
final class DoorWatch: Sendable {
    private let now: @Sendable () -> ContinuousClock.Instant
    private let outages = NIOLockedValueBox<[String: Outage]>([:])

    /// Of one operation, because reading and writing have a connection each.
    private struct Outage {
        var since: ContinuousClock.Instant
        var lastFailure: ContinuousClock.Instant
        var cause: String
    }

    enum News {
        case failed, recovered
    }

    /// How long an operation has to fail to be a trouble. A lock may take a moment.
    private static let patience = Duration.seconds(5)
    /// How long a failure counts if nobody asks again.
    private static let memory = Duration.minutes(1)

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
    }

    /// Notes an answer.
    ///
    /// - Parameter failure: why the database could not answer; nil if it could, or was not asked.
    /// - Returns: what begins or ends with it.
    func note(_ operation: String, status: Int, failure: String?) -> News? {
        let now = now()
        return outages.withLockedValue { outages in
            if let failure {
                let known = outages[operation].flatMap { $0.lastFailure.advanced(by: Self.memory) > now ? $0 : nil }
                outages[operation] = Outage(since: known?.since ?? now, lastFailure: now, cause: failure)
                return known == nil ? .failed : nil
            }
            // Refusals may come before the database is asked.
            guard (200..<300).contains(status) else { return nil }
            return outages.removeValue(forKey: operation) == nil ? nil : .recovered
        }
    }

    /// Nil if all that was asked lately was answered.
    var trouble: String? {
        let now = now()
        let lasting = outages.withLockedValue { outages in
            outages.filter { $1.since.advanced(by: Self.patience) <= now && $1.lastFailure.advanced(by: Self.memory) > now }
        }
        guard let cause = lasting.values.max(by: { $0.lastFailure < $1.lastFailure })?.cause else { return nil }
        return "the HTTP door finds no database for \(lasting.keys.sorted().joined(separator: ", ")): \(cause)"
    }
}
