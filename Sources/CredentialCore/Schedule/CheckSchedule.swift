// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The due checks of an app, as a store finds them. The order in which siwatch asks Apple about them is decided here.
package protocol CheckSchedule {
    /// What the store reads over.
    associatedtype Reader

    /// The checks of tokens that Apple has accepted before, longest due first. Apple's answers about these close a breaker.
    ///
    /// - Parameter quotas: by client, the most checks to return.
    func accepted(upTo limit: Int, quotas: [Int64: Int], from reader: Reader) throws -> [ClaimableCredential]

    /// The first checks of new sign-ins, longest due first. siwatch has to know whether Apple ever accepted the token while the user is still
    /// there.
    ///
    /// - Parameter quotas: by client, the most checks to return.
    func firstChecks(upTo limit: Int, quotas: [Int64: Int], from reader: Reader) throws -> [ClaimableCredential]

    /// All other checks, longest due first.
    ///
    /// - Parameter quotas: by client, the most checks to return.
    func others(upTo limit: Int, quotas: [Int64: Int], from reader: Reader) throws -> [ClaimableCredential]
}

extension CheckSchedule {
    /// The checks to claim next. First checks go before others, up to a share, because many new tokens may be invalid. They also take the
    /// places that other checks leave free. With a share of 0, tokens that Apple has accepted before go before all others.
    ///
    /// - Parameter quotas: by client, the most checks to return.
    package func next(
        upTo limit: Int,
        firstChecks share: Int,
        quotas: [Int64: Int],
        from reader: Reader
    ) throws -> [ClaimableCredential] {
        func left(by taken: [ClaimableCredential]) -> [Int64: Int] {
            taken.reduce(into: quotas) { $0[$1.client]? -= 1 }
        }
        if share == 0 {
            let accepted = try accepted(upTo: limit, quotas: quotas, from: reader)
            if !accepted.isEmpty { return accepted }
        }
        var first = try firstChecks(upTo: min(share, limit), quotas: quotas, from: reader)
        let others = try others(upTo: limit - first.count, quotas: left(by: first), from: reader)
        if first.count == min(share, limit), first.count + others.count < limit {
            let known = Set(first.map(\.id))
            let more = try firstChecks(upTo: limit - others.count, quotas: left(by: others), from: reader)
            first += more.filter { !known.contains($0.id) }
        }
        return Array(first.prefix(limit - others.count)) + others
    }
}

/// A row of `credential` that may be claimed.
package struct ClaimableCredential: Sendable {
    package var userID: String
    /// The client's number in the tables.
    package var client: Int64
    package var attempts: Int
    package var dueAt: Timestamp

    package init(userID: String, client: Int64, attempts: Int, dueAt: Timestamp) {
        self.userID = userID
        self.client = client
        self.attempts = attempts
        self.dueAt = dueAt
    }

    package var id: ID { ID(userID: userID, client: client) }

    package struct ID: Hashable {
        var userID: String
        var client: Int64
    }
}
