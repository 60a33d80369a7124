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
        // Each case names what its file of `SettlementFold` reads.
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
