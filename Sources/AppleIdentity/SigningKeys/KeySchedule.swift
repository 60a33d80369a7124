// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// When siwatch fetches Apple's keys, and when it gives up a key that stays absent.
///
/// The sender of a token chooses the key name, so nothing is kept per name: only when fetches succeeded, and until when some token waits.
/// Times may step with the wall clock, so times in the future are ignored.
struct KeySchedule: Sendable {
    /// The regular time between two fetches. Apple documents none; libraries keep keys for 15 minutes to an hour.
    static let interval = Duration.hours(1)
    /// The shortest time between two fetches, whatever arrives.
    static let spacing = Duration.minutes(1)
    /// How far apart two successful fetches without a key must be before siwatch gives the key up.
    static let longestAbsence = Duration.minutes(10)
    /// The time for a fetch to be answered before a waiting row is looked at again. A measured fetch took 0.5 s.
    static let grace = Duration.seconds(5)

    private var startedAt: Timestamp?
    private var isFetching = false
    private var hasSucceeded = false
    private var awaitedUntil: Timestamp?
    /// When successful fetches began, ascending: all of the last `longestAbsence`, and the newest before them.
    private(set) var successes: [Timestamp] = []

    /// When the next fetch may begin: now, if no fetch ever began.
    func nextFetch(at now: Timestamp, isUrgent: Bool = false) -> Timestamp {
        nextFetch(after: isAwaited(at: now) || !hasSucceeded || isUrgent ? Self.spacing : Self.interval, at: now)
    }

    private func nextFetch(after distance: Duration, at now: Timestamp) -> Timestamp {
        guard let startedAt, startedAt <= now else { return now }
        return startedAt.advanced(by: distance)
    }

    /// - Parameter isUrgent: whether more than the keys is wanted of the answer.
    mutating func begin(at now: Timestamp, isUrgent: Bool = false) -> Bool {
        guard !isFetching, nextFetch(at: now, isUrgent: isUrgent) <= now else { return false }
        isFetching = true
        startedAt = now
        return true
    }

    /// Ends the fetch that `begin` allowed. A failed fetch is repeated after `spacing`.
    mutating func end(succeeded: Bool) {
        isFetching = false
        hasSucceeded = succeeded
        if succeeded, let startedAt { note(startedAt) }
    }

    /// After the last fetch of an earlier process, this process fetches at once all the same, because the answer tells Apple's time.
    mutating func note(_ success: Timestamp) {
        successes.removeAll { $0 >= success }
        successes.append(success)
        let old = success.advanced(by: .zero - Self.longestAbsence)
        let recent = successes.firstIndex { $0 > old } ?? 0
        successes.removeFirst(max(recent - 1, 0))
    }

    /// When to look again for an unknown key. Nil once siwatch gives it up: two successful fetches lack it, `longestAbsence` apart and both
    /// begun after the token was received.
    ///
    /// A row that is dated beyond the skew in the future would never see a fetch after its arrival, so any two fetches judge it.
    mutating func nextLook(receivedAt: Timestamp, skew: Duration, now: Timestamp) -> Timestamp? {
        let received = receivedAt <= now.advanced(by: skew) ? min(receivedAt, now) : nil
        let fetches = successes.filter { $0 <= now && !isGreater(received, than: $0) }
        if let first = fetches.first, let last = fetches.last, first.advanced(by: Self.longestAbsence) <= last { return nil }
        let judged = fetches.first?.advanced(by: Self.longestAbsence) ?? now
        let until = max(judged, nextFetch(after: Self.spacing, at: now), now).advanced(by: Self.grace)
        awaitedUntil = isAwaited(at: now) ? latest(awaitedUntil, until) : until
        return until
    }

    /// A time beyond the longest wait is from before the clock was set back.
    private func isAwaited(at now: Timestamp) -> Bool {
        guard let awaitedUntil, awaitedUntil >= now else { return false }
        return awaitedUntil <= now.advanced(by: Self.longestAbsence + Self.spacing + Self.grace)
    }
}
