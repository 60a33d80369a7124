// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import GRDB
import NIOConcurrencyHelpers

/// Follows `credential_change` by `id > :last_seen`, as docs/schema.md tells backends to, and keeps the changes.
final class FeedFollower: Sendable {
    struct Change: Sendable {
        let userID: String
        let clientID: String
        /// Nil for a change of an address.
        let state: State?

        struct State: Sendable {
            let from: String?
            let to: String
            let reason: String
            let occurredAt: Moment

            /// Whether it is no news after the other state. A later end is news.
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

    init(_ site: Site) throws { backend = try Backend(site.schema!) }

    /// Follows until the task is cancelled. The next call for news throws an earlier error.
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

    func takeNews() throws -> [Change] {
        try seen.withLockedValue { seen in
            if let failure = seen.failure { throw failure }
            defer { seen.news = [] }
            return seen.news
        }
    }

    /// The number of changes in the table that the follower passed over.
    func missed(by backend: Backend) async throws -> Int {
        let (last, count) = seen.withLockedValue { ($0.last, $0.count) }
        return try await backend.int("SELECT COUNT(*) FROM credential_change WHERE id <= \(last)") - count
    }

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
        state = row[3] == "state" ? State(from: row[4], to: row[5], reason: row[6], occurredAt: Moment(milliseconds: row[7])) : nil
    }
}
