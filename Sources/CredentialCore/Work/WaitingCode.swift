// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// An unclaimed row of `grant_queue` with a code that is due.
package struct WaitingCode: Sendable {
    package var id: Int64
    package var attempts: Int
    /// Nil if the client is not text.
    package var client: String?
    /// Nil if the store does not know the client.
    package var app: String?
    /// The backend's time, in milliseconds since 1970.
    package var grantedAt: Int64
    /// The earlier of `grantedAt` and siwatch's first claim, in milliseconds since 1970.
    package var livesSince: Int64

    package init(id: Int64, attempts: Int, client: String?, app: String?, grantedAt: Int64, livesSince: Int64) {
        self.id = id
        self.attempts = attempts
        self.client = client
        self.app = app
        self.grantedAt = grantedAt
        self.livesSince = livesSince
    }

    /// How many clients one claim searches for codes, beside the known clients.
    package static let mostClients = 100

    /// The latest possible due time of a code. A later one came from a clock that has since been set back.
    package static func furthest(at now: Timestamp) -> Timestamp { now.advanced(by: AuthorizationCode.life * 2) }

    /// A code that lives since this time or longer has expired.
    package static func latest(at now: Timestamp) -> Int64 { now.advanced(by: .zero - AuthorizationCode.life).milliseconds }

    /// The codes to claim, nearest deadline first: as many as there are permits, and the codes that siwatch will not send.
    package static func choose(
        _ waiting: [WaitingCode],
        upTo limit: Int,
        permits: [String: Int],
        quotas: [String: Int],
        at now: Timestamp
    ) -> [(id: Int64, attempts: Int)] {
        var (permits, quotas) = (permits, quotas)
        var chosen: [(id: Int64, attempts: Int)] = []
        for code in waiting.sorted(by: { ($0.grantedAt, $0.id) < ($1.grantedAt, $1.id) }) where chosen.count < limit {
            if let app = code.app, let client = code.client, let left = permits[app], code.livesSince > latest(at: now) {
                guard left > 0, quotas[client] ?? 1 > 0 else { continue }
                permits[app] = left - 1
                quotas[client]? -= 1
            }
            chosen.append((code.id, code.attempts))
        }
        return chosen
    }
}
