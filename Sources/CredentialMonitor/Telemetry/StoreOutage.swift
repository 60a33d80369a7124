// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers
import Synchronization

/// Who cannot work because the database does not answer. It turns the failures of all loops, each some times a second, into a line a minute
/// for each error, and one line when the database is back for all of them.
final class StoreOutage: Sendable {
    /// What to tell when the database is back.
    struct End: Equatable {
        var failures: Int
        var lasted: Duration
    }

    private struct State {
        var since: ContinuousClock.Instant?
        var failures = 0
        /// Whose last try failed.
        var suffering: Set<String> = []
        /// When each line was last written.
        var toldAt: [String: ContinuousClock.Instant] = [:]
    }

    private static let reminder = Duration.minutes(1)

    private let state = NIOLockedValueBox(State())
    /// Loops ask at each turn, and mostly nobody suffers.
    private let isOn = Atomic<Bool>(false)

    /// - Parameters:
    ///   - sufferer: whose try failed.
    ///   - line: the event and the error. The same line of another sufferer says nothing new.
    /// - Returns: whether to log the failure.
    func failed(_ sufferer: String, line: String, at now: ContinuousClock.Instant = .now) -> Bool {
        state.withLockedValue { state in
            isOn.store(true, ordering: .relaxed)
            state.since = state.since ?? now
            state.failures += 1
            state.suffering.insert(sufferer)
            if let toldAt = state.toldAt[line], now - toldAt < Self.reminder { return false }
            state.toldAt[line] = now
            return true
        }
    }

    /// - Returns: what to log, once nobody suffers any more; nil otherwise.
    func succeeded(_ sufferer: String, at now: ContinuousClock.Instant = .now) -> End? {
        guard isOn.load(ordering: .relaxed) else { return nil }
        return state.withLockedValue { state in
            guard state.suffering.remove(sufferer) != nil, state.suffering.isEmpty, let since = state.since else { return nil }
            defer { state = State() }
            isOn.store(false, ordering: .relaxed)
            return End(failures: state.failures, lasted: now - since)
        }
    }
}
