// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The order in which siwatch asks Apple about an app's due checks.
extension Schedule {
    /// The checks to claim next. First checks go before others, up to a share, because many new tokens may be invalid. They also take the
    /// places that other checks leave free. With a share of 0, tokens that Apple has accepted before go before all others.
    ///
    /// - Parameter quotas: by client, the most checks to return.
    func next(upTo limit: Int, firstChecks share: Int, quotas: [Int64: Int], on connection: Connection) throws -> [ClaimableCredential] {
        func left(by taken: [ClaimableCredential]) -> [Int64: Int] {
            taken.reduce(into: quotas) { $0[$1.client]? -= 1 }
        }
        if share == 0 {
            let accepted = try accepted(upTo: limit, quotas: quotas, on: connection)
            if !accepted.isEmpty { return accepted }
        }
        var first = try firstChecks(upTo: min(share, limit), quotas: quotas, on: connection)
        let others = try due(of: clients, upTo: limit - first.count, quotas: left(by: first), on: connection)
        if first.count == min(share, limit), first.count + others.count < limit {
            let known = Set(first.map(\.id))
            let more = try firstChecks(upTo: limit - others.count, quotas: left(by: others), on: connection)
            first += more.filter { !known.contains($0.id) }
        }
        return Array(first.prefix(limit - others.count)) + others
    }
}

/// A row of `credential` that may be claimed.
struct ClaimableCredential: Sendable {
    var userID: String
    /// The client's number in the tables.
    var client: Int64
    var attempts: Int
    var dueAt: Timestamp

    var id: ID { ID(userID: userID, client: client) }

    struct ID: Hashable {
        var userID: String
        var client: Int64
    }
}
