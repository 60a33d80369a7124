// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Below where a claim need not look: what was due there has been taken.
///
/// While somebody in the database holds a snapshot, what has gone stays in the index, and each claim would pass by all of it. A row may
/// turn up below all the same, of a transaction that took long or of a claim that was undone, so now and then a claim looks everywhere.
struct ClaimFloor<Place: ClaimPlace>: Sendable {
    private var low: Place?
    private var known: Place?
    private var next: (place: Place, at: Timestamp)?
    private var lookedEverywhereAt: Timestamp?

    static var interval: Duration { .seconds(5) }
    /// Longer than nearly every transaction takes that brings a row.
    static var patience: Duration { .seconds(2) }

    /// Where a claim is to begin; nil for everywhere.
    mutating func begin(at now: Timestamp) -> Place? {
        if let last = lookedEverywhereAt, last <= now, now < last.advanced(by: Self.interval) { return low }
        // What was learned by a clock that has since been set back is forgotten.
        if let last = lookedEverywhereAt, now < last { self = Self() }
        lookedEverywhereAt = now
        return nil
    }

    /// - Parameter place: up to where the claim has taken all that it saw.
    mutating func end(at now: Timestamp, upTo place: Place) {
        let known = known?.orBeyond(place) ?? place
        self.known = known
        if let next {
            guard next.at.advanced(by: Self.patience) <= now else { return }
            low = next.place
        }
        next = (known, now)
    }
}

/// Up to where something has been looked through.
protocol ClaimPlace: Sendable {
    /// Up to where it has been, when both are true.
    func orBeyond(_ other: Self) -> Self
}

extension Timestamp: ClaimPlace {
    func orBeyond(_ other: Timestamp) -> Timestamp { max(self, other) }
}

/// A place in each of the two orders of a queue: new rows, whose due time is 0, by id, and those that are due again.
struct QueuePlace: ClaimPlace {
    var id: Int64 = 0
    var dueAt = Timestamp(milliseconds: .min)

    func orBeyond(_ other: QueuePlace) -> QueuePlace { QueuePlace(id: max(id, other.id), dueAt: max(dueAt, other.dueAt)) }
}

/// What this process knows of where nothing waits.
struct ClaimFloors: Sendable {
    var queues: [Queue: ClaimFloor<QueuePlace>] = [:]
    /// By client.
    var schedules: [Int64: ClaimFloor<Timestamp>] = [:]
}
