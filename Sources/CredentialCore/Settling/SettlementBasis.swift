// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package struct SettlementBasis: Sendable {
    package var users: [AppUserID: UserRecord] = [:]
    package var forgotten: [AppUserID: ForgottenUser] = [:]
    /// The claims of this batch that still hold their row.
    package var heldNotifications: [Int64: Claim] = [:]
    package var heldGrants: [Int64: Claim] = [:]
    package var heldRevocationRequests: [Int64: Claim] = [:]
    package var heldRevocations: [RevocationID: Claim] = [:]
    /// The tokens that are being revoked already, and when that was last asked for.
    package var tokensBeingRevoked: [AppUserID: [RefreshToken.Key: Timestamp]] = [:]
    /// What siwatch knows of requests to revoke that it has taken up. Those of users in `bringing` are complete.
    package var requests: [AppUserID: KnownRequests] = [:]
    /// Since when grants have waited for their client or their time.
    package var waitsSince: [Int64: Timestamp] = [:]
    package var waitingGrants: [AppUserID: [WaitingGrant]] = [:]
    /// By app; absent for an app that has judged nothing yet.
    package var breakers: [String: RejectionBreaker] = [:]
    package var revocationLimits: [String: RevocationLimit] = [:]
    /// Those among them whose row somebody else wrote.
    package var plantedLimits: [String: RevocationLimit] = [:]
    /// When Apple last accepted a token of the client that it had accepted before, by Apple's clock.
    package var provedAt: [String: Timestamp] = [:]
    package var clients: [String: ClientRecord] = [:]

    package init() {}
}

/// A sign-in that waits in its queue. A code delays events, because it lives five minutes; a sign-in that was put off, for its client or
/// until a far time, does not. One that waits for its time delays a request to revoke, because it may be newer than the request.
package struct WaitingGrant: Sendable {
    package var id: Int64
    package var clientID: String
    package var grantedAt: Timestamp
    /// Whether the row is a sign-in only if Apple confirms it.
    package var bringsCode: Bool
    /// Whether the row is sure to be settled: it is unclaimed, or a claim holds it, or it brings a code, which ends within minutes. Any
    /// other row was claimed by a process that never settled it.
    package var isOnItsWay: Bool
    /// Whether it is dated ahead, and waits for its time, which does not come soon.
    package var isAhead: Bool

    package init(id: Int64, clientID: String, grantedAt: Timestamp, bringsCode: Bool = false, isOnItsWay: Bool, isAhead: Bool = false) {
        self.id = id
        self.clientID = clientID
        self.grantedAt = grantedAt
        self.bringsCode = bringsCode
        self.isAhead = isAhead
        self.isOnItsWay = bringsCode || isOnItsWay
    }
}

package struct RevocationID: Sendable, Hashable {
    package var request: Int64
    package var clientID: String
    package var fingerprint: [UInt8]

    package init(request: Int64, clientID: String, fingerprint: [UInt8]) {
        (self.request, self.clientID, self.fingerprint) = (request, clientID, fingerprint)
    }

    package init(_ work: DueRevocation) {
        self.init(request: work.request, clientID: work.id.clientID, fingerprint: work.token.fingerprint)
    }
}

/// A user's requests to revoke that siwatch has taken up: from when the newest ones count.
package struct KnownRequests: Sendable {
    private var open: [RevocationID: Timestamp] = [:]
    private var answered: Timestamp?
    private var answeredWithToken: Timestamp?

    package init() {}

    package var newest: Timestamp? { latest(answered, newestWithToken) }
    /// The newest of those that had a token, which the revocation limit has let through.
    var newestWithToken: Timestamp? { open.values.reduce(answeredWithToken) { latest($0, $1) } }

    package mutating func note(_ token: RevocationID?, from time: Timestamp, isOpen: Bool = false) {
        guard let token else { return answered = latest(answered, time) }
        open[token] = isOpen ? time : nil
        if !isOpen { answeredWithToken = latest(answeredWithToken, time) }
    }

    mutating func end(_ token: RevocationID, from time: Timestamp, isGivenUp: Bool) {
        open[token] = nil
        note(isGivenUp ? nil : token, from: time)
    }
}
