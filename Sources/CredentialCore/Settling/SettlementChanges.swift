// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What a folded batch comes to: all that a store writes, in one transaction.
package struct SettlementChanges: Sendable {
    /// One for each settlement, in the same order. Only the log tells a duplicate.
    package var results: [Settled] = []
    /// What becomes of queue rows, in order.
    package var queueRows: [QueueRowChange] = []
    /// Those touched, in the order of their names, so that neighbouring rows are written together.
    package var users: [UserRecord] = []
    package var announcements: [Announcement] = []
    /// By how much each number of credentials changes.
    package var counts: [StateOfApp: Int] = [:]
    package var tallies: [String: UserRecord.Tally] = [:]
    /// Those that changed, by app.
    package var breakers: [String: RejectionBreaker] = [:]
    /// The apps whose breaker opened, closed again or not: none of their rejections waits any longer.
    package var openedApps: Set<String> = []
    package var admitted: [AdmittedRejection] = []
    /// The clients of which Apple accepted a token, and when it was asked, by its clock.
    package var validAt: [String: Timestamp] = [:]
    /// Checks that Apple answered, and those that it did not.
    package var checks = (answered: 0, failed: 0)
    /// The apps of which a new token came, to ask about.
    package var replenished: Set<String> = []

    package struct StateOfApp: Sendable, Hashable {
        package var app: String
        package var state: CredentialState
    }
}

/// What becomes of a claimed row of a queue.
package enum QueueRowChange: Sendable {
    /// - Parameter settlement: its place in the batch.
    case logNotification(ClaimedNotification, VerifiedNotification, app: String, NotificationLogOutcome, settlement: Int)
    case quarantine(ClaimedNotification, RejectionReason, detail: String)
    case postponeNotification(Int64, until: Timestamp)
    case logGrant(ClaimedGrant, GrantLogOutcome, GrantRejection?)
    /// - Parameter waitsSince: since when it has waited for its client or its time, as far as a trusted clock has told.
    case postponeGrant(Int64, until: Timestamp, waitsSince: Timestamp?)
}
