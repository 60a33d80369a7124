// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the recheck of an app has come, for the next transaction or the next process: in the order of its checks, spread over as long
/// as the app's limit asks.
package struct RecheckPosition: Codable, Sendable {
    package var app: Int64
    /// When it was asked for.
    package var start: Timestamp
    /// When the first is due: before whatever of the app is overdue by then.
    package var first: Timestamp
    /// Those given a time so far.
    package var number = 0
    /// Whose checks come next, by client. The rejected tokens that are still kept come before them all.
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

    /// Rows per transaction: short enough that no settlement waits for it.
    package static let portion = 500

    /// - Parameter head: when the check that has waited longest was due, or the next is.
    package init(app: Int64, clients: [Int64], credentials: Int, head: Timestamp?, under rules: RecheckRules, at now: Timestamp) {
        self.app = app
        self.clients = clients
        start = now
        first = now
        if let head, head < now { first = head.advanced(by: .zero - .seconds(1) * credentials / rules.requestsPerSecond) }
    }

    /// When Apple is to be asked about the next credential, `CredentialRecord.recheck`; nil where it stays as it is. Where it is sooner; but
    /// those who have just signed in go before. A token that Apple has answered about too recently waits until it may be asked about again.
    ///
    /// - Parameter isPending: whether its rejection waits to be believed: that is taken back, and is to be said again.
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
            // Apple has answered since.
            return nil
        }
        return isPending || isGreater(dueAt, than: slot) || dueAt == nil ? slot : nil
    }

    /// - Parameter last: of the rows that were looked at.
    /// - Returns: false once it is done.
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
