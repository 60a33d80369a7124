// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The simplest store: it returns the rows that were written.
struct FoldTables {
    static let apps = ["app": "example", "web": "example", "elsewhere": "other"]
    static let start = Timestamp(seconds: 1_700_000_000)
    static let rules = SettlementRules(
        policy: RefreshPolicy(),
        pollInterval: .seconds(1),
        startedAt: start,
        breaker: BreakerRules(window: 8, maxRejections: 2, maxRejectedPercent: 30),
        canaries: ["example": ["canary"]]
    )

    var users: [AppUserID: [(clientID: String, record: CredentialRecord)]] = [:]
    var registers: [AppUserID: AppUser] = [:]
    var breakers: [String: RejectionBreaker] = [:]
    var provedAt: [String: Timestamp] = [:]
    var clients: [String: ClientRecord] = [:]
    var notifications: Set<Int64> = []
    var grants: [Int64: WaitingGrant] = [:]
    var grantUsers: [Int64: String] = [:]

    mutating func settle(_ settlements: [Settlement], at now: Timestamp) -> SettlementChanges {
        let scope = SettlementScope(of: settlements, apps: Self.apps, under: Self.rules)
        var basis = SettlementBasis()
        for id in scope.users { basis.users[id] = UserRecord(id, stored: registers[id], credentials: users[id] ?? []) }
        for (id, claim) in scope.notifications where notifications.contains(id) { basis.heldNotifications[id] = claim }
        for (id, claim) in scope.grants where grants[id] != nil { basis.heldGrants[id] = claim }
        for id in scope.signingIn {
            basis.waitingGrants[id] = grants.values.filter {
                AppUserID(app: Self.apps[$0.clientID] ?? "", userID: grantUsers[$0.id] ?? "") == id
            }
        }
        for app in scope.judgedApps { basis.breakers[app] = breakers[app] }
        for client in scope.rejectedClients { basis.provedAt[client] = provedAt[client] }
        for client in scope.heardClients { basis.clients[client] = clients[client] }
        let changes = SettlementFold.fold(settlements, over: basis, apps: Self.apps, under: Self.rules, at: now)
        write(changes, at: now)
        return changes
    }

    private mutating func write(_ changes: SettlementChanges, at now: Timestamp) {
        for app in changes.openedApps {
            for id in users.keys where id.app == app {
                for place in users[id]!.indices { users[id]![place].record.forgetRejection(under: Self.rules.policy) }
            }
        }
        for user in changes.users {
            registers[user.id] = user.registers
            users[user.id] = user.holdings.map { ($0.clientID, $0.record) }
        }
        breakers.merge(changes.breakers) { $1 }
        provedAt.merge(changes.provedAt) { max($0, $1) }
        for (client, time) in changes.validAt {
            clients[client, default: ClientRecord()].validAt = latest(clients[client]?.validAt, time)
        }
        for (client, refusal) in changes.refusals { clients[client, default: ClientRecord()].refusal = refusal }
        for row in changes.queueRows {
            switch row {
            case .logNotification(let work, _, _, _, _), .quarantine(let work, _, _): notifications.remove(work.id)
            case .postponeNotification(let id, _): notifications.remove(id)
            case .logGrant(let entry): grants[entry.id] = nil
            case .postponeGrant(let id, let until, _, _): if until > now { grants[id] = nil }
            case .postponeCode, .revocation: break
            }
        }
    }

    func record(_ credential: CredentialID) -> CredentialRecord? {
        users[AppUserID(app: Self.apps[credential.clientID]!, userID: credential.userID)]?.first { $0.clientID == credential.clientID }?
            .record
    }

    mutating func claim(_ user: AppUserID) {
        for place in users[user]!.indices {
            users[user]![place].record.claimedBy = Claim.mine.owner
            users[user]![place].record.attempts = Claim.mine.attempts
        }
    }

    var speakingBreakers: [String: RejectionBreaker] { breakers.filter { $0.value != RejectionBreaker() } }

    var summary: [String] {
        users.flatMap { id, held in held.map { "\(id) \($0.clientID) \($0.record)" } }.sorted()
            + registers.map { "\($0) \($1)" }.sorted() + provedAt.map { "\($0) \($1)" }.sorted()
            + clients.map { "\($0) \($1)" }.sorted()
    }
}
