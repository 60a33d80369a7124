// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// When Apple's keys are fetched, and when a key that stays absent is given up.
///
/// Key names are chosen by whoever sends a token, so nothing is kept per name: only when fetches succeeded, and until when somebody
/// waits. Times may step with the wall clock; what lies in the future is then ignored.
struct KeySchedule: Sendable {
    /// The regular distance of two fetches. Apple documents none; libraries keep keys for 15 minutes to an hour.
    static let interval = Duration.hours(1)
    /// The least distance of two fetches, whatever arrives.
    static let spacing = Duration.minutes(1)
    /// How far apart two successful fetches must lack a key before it is given up.
    static let longestAbsence = Duration.minutes(10)
    /// Leaves a fetch the time to be answered before a waiting row is looked at again. One took 0.5 s when measured.
    static let grace = Duration.seconds(5)

    private var startedAt: Timestamp?
    private var isFetching = false
    /// Whether the last fetch of this process did.
    private var hasSucceeded = false
    private var awaitedUntil: Timestamp?
    /// When fetches that succeeded were begun, ascending: those of the last `longestAbsence`, and the newest before.
    private(set) var successes: [Timestamp] = []

    /// What becomes of a token whose key is absent.
    enum Absence: Equatable {
        case waits(until: Timestamp)
        case givenUp
    }

    /// When the next fetch may begin: now, if none ever did.
    func nextFetch(at now: Timestamp) -> Timestamp {
        nextFetch(after: isAwaited(at: now) || !hasSucceeded ? Self.spacing : Self.interval, at: now)
    }

    private func nextFetch(after distance: Duration, at now: Timestamp) -> Timestamp {
        guard let startedAt, startedAt <= now else { return now }
        return startedAt.advanced(by: distance)
    }

    /// Begins a fetch if one is due and none is under way.
    mutating func begin(at now: Timestamp) -> Bool {
        guard !isFetching, nextFetch(at: now) <= now else { return false }
        isFetching = true
        startedAt = now
        return true
    }

    /// Ends the fetch that `begin` allowed. A failure is repeated after `spacing`.
    mutating func end(succeeded: Bool) {
        isFetching = false
        hasSucceeded = succeeded
        if succeeded, let startedAt { note(startedAt) }
    }

    /// Takes in a fetch of an earlier process. The first one of this process is due `spacing` after it.
    mutating func resume(fetchedAt time: Timestamp) {
        startedAt = time
        note(time)
    }

    private mutating func note(_ success: Timestamp) {
        successes.removeAll { $0 >= success }
        successes.append(success)
        let old = success.advanced(by: .zero - Self.longestAbsence)
        let recent = successes.firstIndex { $0 > old } ?? 0
        successes.removeFirst(max(recent - 1, 0))
    }

    /// Judges a key that is not known: given up once two successful fetches, `longestAbsence` apart and both begun after the token was
    /// received, lack it.
    ///
    /// A row dated beyond the skew in the future would never see a fetch after its arrival; any two fetches judge it.
    mutating func absence(receivedAt: Timestamp, skew: Duration, now: Timestamp) -> Absence {
        let received = receivedAt <= now.advanced(by: skew) ? min(receivedAt, now) : nil
        let fetches = successes.filter { $0 <= now && !isGreater(received, than: $0) }
        if let first = fetches.first, let last = fetches.last, first.advanced(by: Self.longestAbsence) <= last { return .givenUp }
        let judged = fetches.first?.advanced(by: Self.longestAbsence) ?? now
        let until = max(judged, nextFetch(after: Self.spacing, at: now), now).advanced(by: Self.grace)
        awaitedUntil = isAwaited(at: now) ? latest(awaitedUntil, until) : until
        return .waits(until: until)
    }

    /// Whether some token may still wait. Later than any wait can end is a moment from before the clock was set back.
    private func isAwaited(at now: Timestamp) -> Bool {
        guard let awaitedUntil, awaitedUntil >= now else { return false }
        return awaitedUntil <= now.advanced(by: Self.longestAbsence + Self.spacing + Self.grace)
    }
}
