// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How far the recheck of an app has come, in the order of the checks, at the rate of the app's limit.
package struct RecheckPosition: Codable, Sendable {
    package var app: Int64
    package var start: Timestamp
    /// When the first credential is due: before every check of the app that is overdue by then.
    package var first: Timestamp
    package var number = 0
    /// The remaining clients, whose checks come in this order. The rejected tokens that are still kept come before all of them.
    package var clients: [Int64]
    package var isPastRejected = false
    package var last: Last?

    package struct Last: Codable, Sendable {
        package var at: Int64
        package var userID: String
        package var client: Int64
    }

    /// Rows per transaction: few enough that no settlement waits for it.
    package static let portion = 500

    package init(app: Int64, clients: [Int64], credentials: Int, head: Timestamp?, under rules: RecheckRules, at now: Timestamp) {
        self.app = app
        self.clients = clients
        start = now
        first = now
        if let head, head < now { first = head.advanced(by: .zero - .seconds(1) * credentials / rules.requestsPerSecond) }
    }

    /// The next credential's time for `CredentialRecord.recheck`, if that is sooner than its own; nil if its schedule stays. New sign-ins
    /// still go first. A token with an answer that is too recent waits until Apple may be asked again.
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

    /// - Returns: false once the recheck is done.
    package mutating func passed(_ rows: Int, last: (at: Int64, userID: String, client: Int64)?) -> Bool {
        if rows == Self.portion {
            self.last = last.map { Last(at: $0.at, userID: $0.userID, client: $0.client) }
            return true
        }
        if isPastRejected { clients.removeFirst() }
        isPastRejected = true
        self.last = nil
        return !clients.isEmpty
    }
}
