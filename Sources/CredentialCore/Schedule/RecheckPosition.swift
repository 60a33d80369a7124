// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the recheck of an app has come, for the next transaction or process. It follows the order of the checks, at the rate of the
/// app's limit.
package struct RecheckPosition: Codable, Sendable {
    package var app: Int64
    /// When the operator asked for the recheck.
    package var start: Timestamp
    /// When the first credential is due: before every check of the app that is overdue by then.
    package var first: Timestamp
    /// How many credentials have a time so far.
    package var number = 0
    /// The remaining clients, whose checks come in this order. The rejected tokens that are still kept come before all of them.
    package var clients: [Int64]
    package var isPastRejected = false
    package var last: Last?

    package struct Last: Codable, Sendable {
        package var at: Int64
        package var userID: String
        package var client: Int64

        package init(at: Int64, userID: String, client: Int64) {
            self.at = at
            self.userID = userID
            self.client = client
        }
    }

    /// Rows per transaction: few enough that no settlement waits for it.
    package static let portion = 500

    /// - Parameter head: when the check that has waited longest was due, or the next check is.
    package init(app: Int64, clients: [Int64], credentials: Int, head: Timestamp?, under rules: RecheckRules, at now: Timestamp) {
        self.app = app
        self.clients = clients
        start = now
        first = now
        if let head, head < now { first = head.advanced(by: .zero - .seconds(1) * credentials / rules.requestsPerSecond) }
    }

    /// The next credential's time for `CredentialRecord.recheck`; nil if its schedule stays.
    ///
    /// A credential gets the time if that is sooner than its own. New sign-ins still go first. A token with an answer that is too recent
    /// waits until Apple may be asked again.
    ///
    /// - Parameter isPending: whether its rejection is pending. The recheck drops the pending rejection.
    package mutating func slot(
        dueAt: Timestamp?,
        answeredAt: Timestamp?,
        isPending: Bool,
        isBeingAsked: Bool,
        under rules: RecheckRules
    ) -> Timestamp? {
        guard !isBeingAsked, isPastRejected || dueAt == nil else { return nil }
        var slot = answeredAt?.advanced(by: rules.interval)
        if slot.map({ $0 <= start }) ?? true {
            slot = first.advanced(by: .seconds(1) * number / rules.requestsPerSecond)
            number += 1
        } else if isGreater(answeredAt, than: start) {
            // Apple has answered since the recheck began.
            return nil
        }
        return isPending || isGreater(dueAt, than: slot) || dueAt == nil ? slot : nil
    }

    /// - Parameter last: the last row that was read.
    /// - Returns: false once the recheck is done.
    package mutating func passed(_ rows: Int, last: Last?) -> Bool {
        if rows == Self.portion {
            self.last = last
            return true
        }
        if isPastRejected { clients.removeFirst() }
        isPastRejected = true
        self.last = nil
        return !clients.isEmpty
    }
}
