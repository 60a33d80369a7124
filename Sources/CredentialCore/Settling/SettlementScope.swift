// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What a batch of settlements touches: what a store has to load before it can fold them.
package struct SettlementScope: Sendable {
    /// Each once, in the order in which the batch names them.
    package private(set) var users: [AppUserID] = []
    package private(set) var notifications: [(id: Int64, claim: Claim)] = []
    package private(set) var grants: [(id: Int64, claim: Claim)] = []
    /// Of these, sign-ins that wait in their queue count.
    package private(set) var signingIn: Set<AppUserID> = []
    /// The apps whose breakers have something to say.
    package private(set) var judgedApps: Set<String> = []
    /// The clients of whom it matters when Apple last accepted a token.
    package private(set) var rejectedClients: Set<String> = []

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
        for settlement in settlements {
            switch settlement {
            case .notification(let work, let verdict):
                notifications.append((work.id, work.claim))
                guard case .verified(let notification) = verdict, notification.event.kind != .unknown else { continue }
                touch(notification.userID, at: notification.clientID, waitingGrantsCount: notification.event.endsSignIns)
            case .grant(let work, let verdict):
                grants.append((work.id, work.claim))
                if case .accepted(_, let credential) = verdict { touch(credential.userID, at: credential.clientID) }
            case .refresh(let work, let verdict):
                touch(work.id.userID, at: work.id.clientID)
                if let app = apps[work.id.clientID] { judgedApps.insert(app) }
                if verdict.rejection != nil { rejectedClients.insert(work.id.clientID) }
            case .admission(let work, _):
                touch(work.id.userID, at: work.id.clientID, waitingGrantsCount: true)
                if let app = apps[work.id.clientID] { judgedApps.insert(app) }
            }
        }
    }
}

/// What a store holds of all that a batch touches.
package struct SettlementBasis: Sendable {
    package var users: [AppUserID: UserRecord] = [:]
    /// The claims of this batch that still hold their row.
    package var heldNotifications: [Int64: Claim] = [:]
    package var heldGrants: [Int64: Claim] = [:]
    /// Since when grants have waited for their client or their time, where they have.
    package var waitsSince: [Int64: Timestamp] = [:]
    package var waitingGrants: [AppUserID: [WaitingGrant]] = [:]
    /// By app; none for one that has judged nothing yet.
    package var breakers: [String: StoredBreaker] = [:]
    /// When Apple last accepted a token of a client, by its clock.
    package var validAt: [String: Timestamp] = [:]

    package init() {}
}

/// A sign-in that waits in its queue and can be taken.
///
/// One that was put off, or that another lane takes, may wait for long, and holds nothing back.
package struct WaitingGrant: Sendable {
    package var id: Int64
    package var clientID: String
    package var grantedAt: Timestamp

    package init(id: Int64, clientID: String, grantedAt: Timestamp) {
        self.id = id
        self.clientID = clientID
        self.grantedAt = grantedAt
    }
}
