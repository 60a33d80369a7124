// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The place below which a claim need not look, because claims have taken all rows that were due there. While somebody in the database
/// holds a snapshot, each claim would read past all taken rows. A row may still turn up below, from a slow transaction or an undone claim.
/// So now and then a claim looks everywhere, and again until no row is left below.
struct ClaimFloor<Place: ClaimPlace>: Sendable {
    private var low: Place?
    /// The furthest place that claims have looked through.
    private(set) var known: Place?
    private var next: (place: Place, at: Timestamp)?
    private var lookedEverywhereAt: Timestamp?
    private var isLookingEverywhere = false

    static var interval: Duration { .seconds(5) }
    /// Longer than nearly every transaction that brings a row.
    static var patience: Duration { .seconds(2) }

    /// Where a claim begins; nil for everywhere.
    mutating func begin(at now: Timestamp) -> Place? {
        // If the clock was set back, forget everything learned by it.
        if let last = lookedEverywhereAt, now < last { self = Self() }
        isLookingEverywhere = lookedEverywhereAt.map { $0.advanced(by: Self.interval) <= now } ?? true
        return isLookingEverywhere ? nil : low
    }

    /// Ends the claim that began last. A failed claim does not call it.
    /// - Parameters:
    ///   - first: the lowest place that the claim took; nil if it took nothing.
    ///   - place: up to here the claim took everything that it saw; nil if unknown.
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

protocol ClaimPlace: Sendable {
    /// The place that covers both places.
    func orBeyond(_ other: Self) -> Self

    /// Whether a claim that begins at the other place misses this one.
    func isBelow(_ other: Self) -> Bool
}

extension Timestamp: ClaimPlace {
    func orBeyond(_ other: Timestamp) -> Timestamp { max(self, other) }
    func isBelow(_ other: Timestamp) -> Bool { self < other }
}

/// A place in each of the two orders of a queue: new rows, whose due time is 0, by id, and rows that are due again, by due time.
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

struct ClaimFloors {
    var queues: [Queue: ClaimFloor<QueuePlace>] = [:]
    /// When a claim last began with sign-ins that are due again, and found none.
    var nothingAgainAt: Timestamp?
    var checks: [CheckSearch: ClaimFloor<Timestamp>] = [:]

    /// Whether a claim of sign-ins begins with those that are due again. If there are none, only one claim in a second does, because it may
    /// read past every sign-in that was settled since the floor.
    func beginsWithSignInsDueAgain(at now: Timestamp) -> Bool {
        guard let last = nothingAgainAt else { return true }
        return now < last || last.advanced(by: .seconds(1)) <= now
    }
}
