// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Below where a claim need not look: what was due there has been taken.
///
/// While somebody in the database holds a snapshot, what has gone stays in the index, and each claim would pass by all of it. A row may
/// turn up below all the same, of a transaction that took long or of a claim that was undone, so now and then a claim looks everywhere;
/// and where it finds something, so does the next, until there is nothing below.
struct ClaimFloor<Place: ClaimPlace>: Sendable {
    private var low: Place?
    /// The furthest that was looked through.
    private(set) var known: Place?
    private var next: (place: Place, at: Timestamp)?
    private var lookedEverywhereAt: Timestamp?
    private var isLookingEverywhere = false

    static var interval: Duration { .seconds(5) }
    /// Longer than nearly every transaction takes that brings a row.
    static var patience: Duration { .seconds(2) }

    /// Where a claim is to begin; nil for everywhere.
    mutating func begin(at now: Timestamp) -> Place? {
        // What was learned by a clock that has since been set back is forgotten.
        if let last = lookedEverywhereAt, now < last { self = Self() }
        isLookingEverywhere = lookedEverywhereAt.map { $0.advanced(by: Self.interval) <= now } ?? true
        return isLookingEverywhere ? nil : low
    }

    /// Ends the claim that began last. One that failed does not.
    ///
    /// - Parameters:
    ///   - first: the lowest place that it took; nil where it took nothing.
    ///   - place: up to where it has taken all that it saw; nil where that is not known.
    mutating func end(at now: Timestamp, from first: Place?, upTo place: Place?) {
        if isLookingEverywhere {
            let isLeftBelow = if let first, let low { first.isBelow(low) } else { false }
            lookedEverywhereAt = isLeftBelow ? nil : now
        }
        guard let place else { return }
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

    /// Whether whoever begins at the other passes it by.
    func isBelow(_ other: Self) -> Bool
}

extension Timestamp: ClaimPlace {
    func orBeyond(_ other: Timestamp) -> Timestamp { max(self, other) }

    func isBelow(_ other: Timestamp) -> Bool { self < other }
}

/// A place in each of the two orders of a queue: new rows, whose due time is 0, by id, and those that are due again.
struct QueuePlace: ClaimPlace, Equatable {
    var id: Int64?
    var dueAt: Timestamp?

    func orBeyond(_ other: QueuePlace) -> QueuePlace {
        QueuePlace(id: [id, other.id].compactMap(\.self).max(), dueAt: [dueAt, other.dueAt].compactMap(\.self).max())
    }

    func isBelow(_ other: QueuePlace) -> Bool {
        if let id, let end = other.id, id <= end { return true }
        return if let dueAt, let end = other.dueAt { dueAt <= end } else { false }
    }
}

/// What a connection knows of where nothing waits.
struct ClaimFloors {
    var queues: [Queue: ClaimFloor<QueuePlace>] = [:]
    /// When a claim last began with sign-ins that are due again, and found none.
    var nothingAgainAt: Timestamp?
    /// By client: first checks of new sign-ins, and all others.
    var firstChecks: [Int64: ClaimFloor<Timestamp>] = [:]
    var schedules: [Int64: ClaimFloor<Timestamp>] = [:]

    /// Whether a claim of sign-ins begins with those that are due again.
    ///
    /// Where there are none, only one claim in a second does. It reads past every sign-in that was settled since the floor, as long as a
    /// held snapshot keeps them in the index.
    func beginsWithSignInsDueAgain(at now: Timestamp) -> Bool {
        guard let last = nothingAgainAt else { return true }
        return now < last || last.advanced(by: .seconds(1)) <= now
    }
}
