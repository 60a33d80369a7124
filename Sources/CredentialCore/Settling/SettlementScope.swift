// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The data that a batch of settlements touches, and that a store has to load before it can fold them.
package struct SettlementScope: Sendable {
    /// Each user once, in the order of their ids, so that neighbouring rows are read together.
    package private(set) var users: [AppUserID] = []
    package private(set) var notifications: [(id: Int64, claim: Claim)] = []
    /// Rows of `grant_queue`, with a code or without.
    package private(set) var grants: [(id: Int64, claim: Claim)] = []
    package private(set) var revocationRequests: [(id: Int64, claim: Claim)] = []
    package private(set) var revocations: [(id: RevocationID, claim: Claim)] = []
    /// Users with a sign-in or an event in this batch. siwatch may have forgotten them.
    package private(set) var told: Set<AppUserID> = []
    /// Users whose waiting sign-ins the fold needs.
    package private(set) var signingIn: Set<AppUserID> = []
    /// Users for whom this batch has a new token. An earlier request to revoke may cover the token.
    package private(set) var bringing: Set<AppUserID> = []
    /// Users whose tokens under revocation the fold needs.
    package private(set) var leaving: Set<AppUserID> = []
    /// The apps whose breakers judge something, or of whose clients Apple has said something, and `limitedApps`. A server locks their rows.
    package private(set) var judgedApps: Set<String> = []
    /// The apps whose revocation limit the fold needs.
    package private(set) var limitedApps: Set<String> = []
    /// The clients whose `provedAt` the fold needs.
    package private(set) var rejectedClients: Set<String> = []
    /// The clients whose record the fold needs.
    package private(set) var heardClients: Set<String> = []

    private let apps: [String: String]

    package init(of settlements: [Settlement], apps: [String: String], under rules: SettlementRules) {
        self.apps = apps
        var known: Set<AppUserID> = []
        @discardableResult func touch(_ credential: CredentialID, judges: Bool = false) -> AppUserID? {
            guard let id = user(credential) else { return nil }
            if judges || rules.isCanary(id.userID, of: id.app) { judgedApps.insert(id.app) }
            if known.insert(id).inserted { users.append(id) }
            return id
        }
        for settlement in settlements {
            switch settlement {
            case .notification(let work, let verdict):
                notifications.append((work.id, work.claim))
                guard case .verified(let notification) = verdict else { continue }
                let credential = CredentialID(clientID: notification.clientID, userID: notification.userID)
                tell(credential)
                guard notification.event.kind != .unknown, let id = touch(credential), notification.event.endsSignIns else { continue }
                signingIn.insert(id)
            case .grant(let work, let verdict):
                grants.append((work.id, work.claim))
                guard case .accepted(let grant, let credential, _) = verdict else { continue }
                tell(credential, bringsToken: grant.token != nil)
                touch(credential)
            case .code(let work, let verdict):
                grants.append((work.id, work.claim))
                if let content = work.content { hear(work.clientAnswer, of: content.clientID) }
                guard case .exchanged(let grant, let credential, _, _, _) = verdict else { continue }
                tell(credential, bringsToken: grant.token != nil)
                touch(credential, judges: true)
            case .refresh(let work, let verdict):
                touch(work.id, judges: true)
                hear(work.clientAnswer, of: work.id.clientID)
                if verdict.rejection != nil { rejectedClients.insert(work.id.clientID) }
            case .admission(let work, _):
                if let id = touch(work.id, judges: true) { signingIn.insert(id) }
            case .revocationRequest(let work, let verdict):
                revocationRequests.append((work.id, work.claim))
                guard case .accepted = verdict, let credential = work.credential, let id = touch(credential, judges: true) else { continue }
                signingIn.insert(id)
                leaving.insert(id)
                limitedApps.insert(id.app)
            case .revocation(let work, let verdict):
                revocations.append((RevocationID(work), work.claim))
                touch(work.id, judges: verdict == .admitted || verdict == .otherTeam)
                hear(work.clientAnswer, of: work.id.clientID)
            }
        }
        users.sort { $0.userID < $1.userID }
    }

    private func user(_ credential: CredentialID) -> AppUserID? {
        apps[credential.clientID].map { AppUserID(app: $0, userID: credential.userID) }
    }

    private mutating func tell(_ credential: CredentialID, bringsToken: Bool = false) {
        guard let id = user(credential) else { return }
        told.insert(id)
        if bringsToken { bringing.insert(id) }
    }

    private mutating func hear(_ answer: ClientAnswer?, of clientID: String) {
        guard let app = apps[clientID] else { return }
        heardClients.insert(clientID)
        if answer != nil { judgedApps.insert(app) }
    }
}

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
    package var newestWithToken: Timestamp? { open.values.reduce(answeredWithToken) { latest($0, $1) } }

    package mutating func note(_ token: RevocationID?, from time: Timestamp, isOpen: Bool = false) {
        guard let token else { return answered = latest(answered, time) }
        open[token] = isOpen ? time : nil
        if !isOpen { answeredWithToken = latest(answeredWithToken, time) }
    }
}
