// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A row of `grant_queue` with a code that is due, before it is claimed.
package struct WaitingCode: Sendable {
    package var id: Int64
    package var attempts: Int
    /// Nil where the client is no text.
    package var client: String?
    /// Nil where nobody knows the client.
    package var app: String?
    /// In milliseconds since 1970, as a backend wrote it.
    package var grantedAt: Int64
    /// The same, or when siwatch first saw it, if that was earlier.
    package var livesSince: Int64

    package init(id: Int64, attempts: Int, client: String?, app: String?, grantedAt: Int64, livesSince: Int64) {
        self.id = id
        self.attempts = attempts
        self.client = client
        self.app = app
        self.grantedAt = grantedAt
        self.livesSince = livesSince
    }

    /// For how many clients codes are looked for at once, beside those that are known.
    package static let mostClients = 100

    /// A due time beyond any that a code is put off to is of a clock that has since been set back.
    package static func furthest(at now: Timestamp) -> Timestamp { now.advanced(by: AuthorizationCode.life * 2) }

    /// The time of a code is over that lives since then, or longer.
    package static func latest(at now: Timestamp) -> Int64 { now.advanced(by: .zero - AuthorizationCode.life).milliseconds }

    /// Those that are to be claimed, nearest deadline first: as many as there are permits, and besides those that are not to be sent.
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
