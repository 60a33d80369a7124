// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What a batch of settlements touches: what a store has to load before it can fold them.
package struct SettlementScope: Sendable {
    /// Each once, in the order of their names, so that neighbouring rows are read together.
    package private(set) var users: [AppUserID] = []
    package private(set) var notifications: [(id: Int64, claim: Claim)] = []
    /// Rows of `grant_queue`, with a code or without.
    package private(set) var grants: [(id: Int64, claim: Claim)] = []
    package private(set) var revocationRequests: [(id: Int64, claim: Claim)] = []
    package private(set) var revocations: [(id: RevocationID, claim: Claim)] = []
    /// Of these, sign-ins that wait in their queue count.
    package private(set) var signingIn: Set<AppUserID> = []
    /// Of these, tokens that are being revoked count.
    package private(set) var leaving: Set<AppUserID> = []
    /// The apps whose breakers have something to say, and those of the clients of whom Apple has said something: a store that several
    /// settle on locks what it holds of an app by its breaker.
    package private(set) var judgedApps: Set<String> = []
    /// The clients of whom it matters when Apple last accepted a token that it had accepted before.
    package private(set) var rejectedClients: Set<String> = []
    /// The clients of whom it matters whether Apple refuses them.
    package private(set) var heardClients: Set<String> = []

    /// - Parameter apps: the app of each client.
    package init(of settlements: [Settlement], apps: [String: String], under rules: SettlementRules) {
        var known: Set<AppUserID> = []
        func touch(_ userID: String, at clientID: String, waitingGrantsCount: Bool = false) {
            guard let app = apps[clientID] else { return }
            let id = AppUserID(app: app, userID: userID)
            if waitingGrantsCount { signingIn.insert(id) }
            guard known.insert(id).inserted else { return }
            users.append(id)
            if rules.isCanary(userID, of: app) { judgedApps.insert(app) }
        }
        func hear(_ answer: ClientAnswer?, of clientID: String) {
            guard let app = apps[clientID] else { return }
            heardClients.insert(clientID)
            if answer != nil { judgedApps.insert(app) }
        }
        for settlement in settlements {
            switch settlement {
            case .notification(let work, let verdict):
                notifications.append((work.id, work.claim))
                guard case .verified(let notification) = verdict, notification.event.kind != .unknown else { continue }
                touch(notification.userID, at: notification.clientID, waitingGrantsCount: notification.event.endsSignIns)
            case .grant(let work, let verdict):
                grants.append((work.id, work.claim))
                if case .accepted(_, let credential, _) = verdict { touch(credential.userID, at: credential.clientID) }
            case .code(let work, let verdict):
                grants.append((work.id, work.claim))
                if let content = work.content { hear(work.clientAnswer, of: content.clientID) }
                guard case .exchanged(_, let credential, _, _) = verdict else { continue }
                touch(credential.userID, at: credential.clientID)
                if let app = apps[credential.clientID] { judgedApps.insert(app) }
            case .refresh(let work, let verdict):
                touch(work.id.userID, at: work.id.clientID)
                hear(work.clientAnswer, of: work.id.clientID)
                if let app = apps[work.id.clientID] { judgedApps.insert(app) }
                if verdict.rejection != nil { rejectedClients.insert(work.id.clientID) }
            case .admission(let work, _):
                touch(work.id.userID, at: work.id.clientID, waitingGrantsCount: true)
                if let app = apps[work.id.clientID] { judgedApps.insert(app) }
            case .revocationRequest(let work, let verdict):
                revocationRequests.append((work.id, work.claim))
                guard verdict == .accepted, let credential = work.credential, let app = apps[credential.clientID] else { continue }
                touch(credential.userID, at: credential.clientID, waitingGrantsCount: true)
                leaving.insert(AppUserID(app: app, userID: credential.userID))
            case .revocation(let work, let verdict):
                revocations.append((RevocationID(work), work.claim))
                touch(work.id.userID, at: work.id.clientID)
                hear(work.clientAnswer, of: work.id.clientID)
                if verdict == .admitted || verdict == .otherTeam, let app = apps[work.id.clientID] { judgedApps.insert(app) }
            }
        }
        users.sort { $0.userID < $1.userID }
    }
}

/// What a store holds of all that a batch touches.
package struct SettlementBasis: Sendable {
    package var users: [AppUserID: UserRecord] = [:]
    /// The claims of this batch that still hold their row.
    package var heldNotifications: [Int64: Claim] = [:]
    package var heldGrants: [Int64: Claim] = [:]
    package var heldRevocationRequests: [Int64: Claim] = [:]
    package var heldRevocations: [RevocationID: Claim] = [:]
    /// What is being revoked already, and when that was last asked for.
    package var tokensBeingRevoked: [AppUserID: [RefreshToken.Key: Timestamp]] = [:]
    /// Since when grants have waited for their client or their time, where they have.
    package var waitsSince: [Int64: Timestamp] = [:]
    package var waitingGrants: [AppUserID: [WaitingGrant]] = [:]
    /// By app; none for one that has judged nothing yet.
    package var breakers: [String: StoredBreaker] = [:]
    /// When Apple last accepted a token of a client that it had accepted before, by its clock.
    package var provedAt: [String: Timestamp] = [:]
    /// What Apple has said of each client.
    package var clients: [String: ClientRecord] = [:]

    package init() {}
}

/// A sign-in that waits in its queue and can be taken.
///
/// One that was put off may wait for long, and holds nothing back; unless it brings a code, which does not live long.
package struct WaitingGrant: Sendable {
    package var id: Int64
    package var clientID: String
    package var grantedAt: Timestamp
    /// Whether it is a sign-in only if Apple says so.
    package var bringsCode: Bool
    /// Whether it is sure to come to its turn: nobody has claimed it yet, or a claim holds it, or it brings a code, which ends within
    /// minutes. What remains was claimed by somebody who never came back with it.
    package var isOnItsWay: Bool

    package init(id: Int64, clientID: String, grantedAt: Timestamp, bringsCode: Bool = false, isOnItsWay: Bool) {
        self.id = id
        self.clientID = clientID
        self.grantedAt = grantedAt
        self.bringsCode = bringsCode
        self.isOnItsWay = bringsCode || isOnItsWay
    }
}

/// A token of a request.
package struct RevocationID: Sendable, Hashable {
    package var request: Int64
    package var clientID: String
    package var fingerprint: [UInt8]

    package init(request: Int64, clientID: String, fingerprint: [UInt8]) {
        self.request = request
        self.clientID = clientID
        self.fingerprint = fingerprint
    }

    package init(_ work: DueRevocation) {
        self.init(request: work.request, clientID: work.id.clientID, fingerprint: work.token.fingerprint)
    }
}
