// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import GRDB
import NIOConcurrencyHelpers

/// Follows `credential_change` by `id > :last_seen`, as docs/schema.md tells backends to, and keeps what it was told.
final class FeedFollower: Sendable {
    struct Change: Sendable {
        let userID: String
        let clientID: String
        /// Nil where it is about an address.
        let state: State?

        struct State: Sendable {
            let from: String?
            let to: String
            let reason: String
            let occurredAt: Moment

            /// Whether it tells nothing after another: a later end does.
            func isSame(as other: State) -> Bool {
                (to, reason) == (other.to, other.reason) && (to == "authorized" || occurredAt == other.occurredAt)
            }
        }
    }

    private struct Seen {
        var last: Int64 = 0
        var count = 0
        var news: [Change] = []
        var failure: (any Error)?
    }

    private let backend: Backend
    private let seen = NIOLockedValueBox(Seen())

    init(_ site: Site) throws {
        backend = try Backend(site.schema!)
    }

    /// Until the task is cancelled. What ends it before, the next one hears who asks for news.
    func run() async {
        do {
            try await follow()
        } catch {
            if !Task.isCancelled { seen.withLockedValue { $0.failure = error } }
        }
    }

    private func follow() async throws {
        while !Task.isCancelled {
            let last = seen.withLockedValue(\.last)
            let rows = try await backend.rows(
                """
                SELECT id, user_id, client_id, kind, from_state, to_state, reason, occurred_at FROM credential_change
                 WHERE id > \(last) ORDER BY id LIMIT 500
                """
            )
            if let newest = rows.last {
                seen.withLockedValue { seen in
                    seen.last = newest[0]
                    seen.count += rows.count
                    seen.news += rows.map(Change.init)
                }
            } else {
                try await backend.first(of: "SELECT COALESCE(MAX(id), 0) FROM credential_change", within: .seconds(1)) { $0 > last }
            }
        }
    }

    /// What was told since the last call.
    func takeNews() throws -> [Change] {
        try seen.withLockedValue { seen in
            if let failure = seen.failure { throw failure }
            defer { seen.news = [] }
            return seen.news
        }
    }

    /// How many changes stand in the table that were passed over.
    func missed(by backend: Backend) async throws -> Int {
        let (last, count) = seen.withLockedValue { ($0.last, $0.count) }
        return try await backend.int("SELECT COUNT(*) FROM credential_change WHERE id <= \(last)") - count
    }

    /// Waits until all that stands there has been told.
    func catchUp(with backend: Backend) async throws {
        let newest = try await backend.first(of: "SELECT COALESCE(MAX(id), 0) FROM credential_change", within: .seconds(30), where: isTold)
        guard isTold(newest) else { throw HarnessError("the feed stands still before \(newest)") }
    }

    private func isTold(_ id: Int) -> Bool { seen.withLockedValue { $0.last } >= id }
}

extension FeedFollower.Change {
    fileprivate init(_ row: Row) {
        userID = row[1]
        clientID = row[2]
        state =
            row[3] == "state" ? State(from: row[4], to: row[5], reason: row[6], occurredAt: Moment(milliseconds: row[7])) : nil
    }
}
