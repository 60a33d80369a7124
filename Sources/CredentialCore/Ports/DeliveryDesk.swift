// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the changes have been delivered: a cursor over `credential_change` for each delivery, and a row for each change that its
/// receiver did not take. Where all is well, nothing is written for a change.
package protocol DeliveryDesk: Sendable {
    func delivery(_ name: String) async throws -> DeliveryPosition?
    /// Begins a delivery at the newest change, unless the database knows it.
    func beginDelivery(_ name: String) async throws
    /// Every delivery that the database knows, also those that have left the configuration.
    func deliveryNames() async throws -> [String]
    /// Hands over what a delivery still has to send; if the other one is there, it sends both. Says whether the database knew it.
    func renameDelivery(_ old: String, to new: String) async throws -> Bool
    func forgetDelivery(_ name: String) async throws
    /// Moves the cursor, and keeps the changes that failed, in one transaction. Does nothing if the cursor is elsewhere meanwhile.
    func advance(_ name: String, from old: Int64, to new: Int64, failed: [FailedChange], at now: Timestamp) async throws
    /// The stuck changes whose next try is due, oldest first, and after them those that are due later than any try can be.
    func stuckChanges(of name: String, upTo limit: Int, at now: Timestamp) async throws -> [StuckChange]
    /// Forgets changes that were delivered, and keeps the others for their next try.
    func settle(_ name: String, delivered: [Int64], failed: [FailedChange], at now: Timestamp) async throws
    /// Stops a delivery whose receiver is gone since a time, or lets it go on.
    func stop(_ name: String, since time: Timestamp?) async throws
    /// Makes the changes due that a receiver did not take, the dead ones among them, and counts them.
    func replay(_ name: String, at now: Timestamp) async throws -> Int
    /// Forgets the dead changes of a delivery, and counts them.
    func dropDead(of name: String) async throws -> Int
    /// Forgets and counts, by delivery, the changes whose next try can never come: past their retention, or of a forgotten user.
    func forgetUndeliverable() async throws -> [String: Int]
}

package struct DeliveryPosition: Sendable, Equatable, Codable {
    /// All changes up to this id are delivered, or stand among those that failed.
    package var cursor: Int64
    package var newest: Int64
    /// Since when nothing is sent, because the receiver said that it is gone.
    package var stoppedAt: Timestamp?
    /// Changes that wait for their next try, and those that are tried no more.
    package var waiting: Int
    package var dead: Int
    /// When the oldest change was recorded that waits for its next try; nil if none does.
    package var oldestWaiting: Timestamp?

    /// At most how many changes it has not sent yet. After a restore the cursor may be ahead of all changes until the next round.
    package var behind: Int64 {
        // Somebody may have written any cursor.
        let (difference, isBeyond) = newest.subtractingReportingOverflow(cursor)
        return isBeyond ? .max : max(difference, 0)
    }
}

package struct FailedChange: Sendable, Equatable {
    package var id: Int64
    package var failures: Int
    /// Nil if it is tried no more.
    package var dueAt: Timestamp?
    /// In a few words, without anything that the receiver said.
    package var reason: String

    package init(id: Int64, failures: Int, dueAt: Timestamp?, reason: String) {
        self.id = id
        self.failures = failures
        self.dueAt = dueAt
        self.reason = reason
    }
}

/// A change that is sent again beside the others.
package struct StuckChange: Sendable, Equatable {
    package var change: PublishedChange
    package var failures: Int
    package var failedAt: Timestamp

    package init(change: PublishedChange, failures: Int, failedAt: Timestamp) {
        (self.change, self.failures, self.failedAt) = (change, failures, failedAt)
    }

    package static let longestWait = Duration.hours(24)

    /// The latest possible due time, and some minutes. A later one came from a clock that has since been set back.
    package static func furthest(at now: Timestamp) -> Timestamp { now.advanced(by: longestWait + .minutes(5)) }
}

package enum DeliveryNews: Sendable, Equatable {
    case sent(Outcome, Int)
    case stopped
    /// Changes before the cursor are gone, or those after it: retention, or a restore.
    case skipped(from: Int64, to: Int64)
    /// The database did not know it any more: an operator has dropped or renamed it, or somebody has deleted its row.
    case begunAnew
    /// So many changes that the receiver did not take are gone.
    case forgotten(Int)
    case position(DeliveryPosition)

    /// The label of a metric.
    package enum Outcome: String, Sendable, CaseIterable {
        case taken, refused, silent, dead
    }
}
