// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import NIOConcurrencyHelpers

/// Notices when requests at the HTTP door find no database. The door has connections of its own, so nothing else may notice.
final class DoorWatch: Sendable {
    private let now: @Sendable () -> ContinuousClock.Instant
    private let outages = NIOLockedValueBox<[BackendAPI.DatabaseUse: Outage]>([:])

    private struct Outage {
        var since: ContinuousClock.Instant
        var lastFailure: ContinuousClock.Instant
        var cause: String

        /// A lock may take a moment, and one request may fail when a server restarts.
        var isTrouble: Bool { lastFailure - since >= .seconds(5) }
    }

    enum News {
        case failed, recovered
    }

    /// How long a failure counts if nobody asks again.
    private static let memory = Duration.minutes(1)

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
    }

    /// Notes an answer.
    ///
    /// - Parameter failure: nil if the database answered.
    /// - Returns: what begins or ends with it.
    func note(_ use: BackendAPI.DatabaseUse, failure: String?) -> News? {
        let now = now()
        return outages.withLockedValue { outages in
            guard let failure else { return outages.removeValue(forKey: use)?.isTrouble == true ? .recovered : nil }
            let known = outages[use].flatMap { $0.lastFailure.advanced(by: Self.memory) > now ? $0 : nil }
            let outage = Outage(since: known?.since ?? now, lastFailure: now, cause: failure)
            outages[use] = outage
            return outage.isTrouble && known?.isTrouble != true ? .failed : nil
        }
    }

    /// Nil if all that was asked lately was answered.
    var trouble: String? {
        let now = now()
        let troubles = outages.withLockedValue { $0.filter { $1.isTrouble && $1.lastFailure.advanced(by: Self.memory) > now } }
        guard let last = troubles.max(by: { $0.value.lastFailure < $1.value.lastFailure }) else { return nil }
        return "the HTTP door finds no database for \(last.key): \(last.value.cause)"
    }
}
