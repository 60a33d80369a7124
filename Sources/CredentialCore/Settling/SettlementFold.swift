// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A pure fold of settlements over the contents of a store: facts move registers, the breaker judges, and the rows to write come out.
/// What a case reads of the store, `SettlementScope` names.
package struct SettlementFold {
    let rules: SettlementRules
    let now: Timestamp
    let apps: [String: String]
    var basis: SettlementBasis
    var changes = SettlementChanges()
    /// Sign-ins that the batch has taken.
    var goneGrants: Set<Int64> = []
    /// Sign-ins that the batch has postponed, and that cannot be taken now.
    var postponedGrants: [Int64: Bool] = [:]
    private var breakers: [String: RejectionBreaker] = [:]

    package static func fold(
        _ settlements: [Settlement],
        over basis: consuming SettlementBasis,
        apps: [String: String],
        under rules: SettlementRules,
        at now: Timestamp
    ) -> SettlementChanges {
        var fold = SettlementFold(rules: rules, now: now, apps: apps, basis: basis)
        fold.changes.results.reserveCapacity(settlements.count)
        for settlement in settlements {
            let result = fold.settle(settlement)
            fold.changes.results.append(result)
        }
        return fold.finished()
    }

    private mutating func settle(_ settlement: Settlement) -> Settled {
        switch settlement {
        case .notification(let work, let verdict): settle(work, verdict)
        case .grant(let work, let verdict): settle(work, verdict)
        case .code(let work, let verdict): settle(work, verdict)
        case .refresh(let work, let verdict): settle(work, verdict)
        case .admission(let work, let rejection): admit(rejection, of: work)
        case .revocationRequest(let work, let verdict): settle(work, verdict)
        case .revocation(let work, let verdict): settle(work, verdict)
        }
    }

    private consuming func finished() -> SettlementChanges {
        // The breaker that replaces an unreadable state is written down, with its time.
        for (app, breaker) in breakers where basis.breakers[app, default: RejectionBreaker()] != breaker {
            changes.breakers[app] = breaker
        }
        changes.knownBreakers = basis.breakers.mapValues { [now] in $0.breaker(at: now) }.merging(breakers) { $1 }
        let users = Array(basis.users.values)
        changes.users = users.indices.sorted { users[$0].id.userID < users[$1].id.userID }.map { users[$0] }
        return changes
    }

    // MARK: What follows from a fact

    /// Applies one fact to a user and announces its changes at every client of the app.
    mutating func withUser<Result>(
        _ id: AppUserID,
        _ source: ChangeSource,
        at time: Timestamp,
        tokenID: String? = nil,
        _ body: (inout UserRecord) -> Result
    ) -> Result {
        let (result, changed) = with(id) { user in
            let result = body(&user)
            return (result, user.publish())
        }
        if rules.isCanary(id.userID, of: id.app) { forgetLostCanaries(of: id) }
        for (clientID, old, new) in changed {
            count(id.app, from: old?.standing.state, to: new.standing.state)
            for change in new.changes(since: old, at: time) {
                let credential = CredentialID(clientID: clientID, userID: id.userID)
                changes.announcements.append(
                    Announcement(app: id.app, credential: credential, change: change, source: source, tokenID: tokenID)
                )
            }
        }
        return result
    }

    /// What siwatch remembers of a user, if it has forgotten all facts up to this time.
    func forgotten(_ id: AppUserID, at time: Timestamp) -> ForgottenUser? {
        basis.forgotten[id].flatMap { time <= $0.until ? $0 : nil }
    }

    @discardableResult
    private mutating func with<Result>(_ id: AppUserID, _ body: (inout UserRecord) -> Result) -> Result {
        func counting(_ user: inout UserRecord?) -> (Result, before: UserRecord.Tally, after: UserRecord.Tally) {
            guard user != nil else { preconditionFailure("a user of the batch is missing from its basis") }
            let before = user!.tally
            let result = body(&user!)
            return (result, before, user!.tally)
        }
        let (result, before, after) = counting(&basis.users[id])
        if before != after { changes.tallies[id.app, default: UserRecord.Tally()].change(from: before, to: after) }
        return result
    }

    /// Forgets canaries without a token, because siwatch no longer asks about them.
    private mutating func forgetLostCanaries(of id: AppUserID) {
        for holding in basis.users[id]?.holdings ?? [] where holding.record.credential.token?.sealed == nil {
            let canary = CredentialID(clientID: holding.clientID, userID: id.userID)
            withBreaker(of: id.app) { [now] in $0.forget(canary: canary, at: now) }
        }
    }

    private mutating func count(_ app: String, from old: CredentialState?, to new: CredentialState) {
        guard old != new else { return }
        if let old { changes.counts[SettlementChanges.StateOfApp(app: app, state: old), default: 0] -= 1 }
        changes.counts[SettlementChanges.StateOfApp(app: app, state: new), default: 0] += 1
    }

    // MARK: Breakers

    /// Lets the breaker of an app judge, in its state after the earlier settlements of the batch.
    mutating func withBreaker<Result>(of app: String, _ body: (inout RejectionBreaker) -> Result) -> Result {
        var breaker = breakers[app] ?? basis.breakers[app]?.breaker(at: now) ?? RejectionBreaker()
        let before = breaker
        let result = body(&breaker)
        breakers[app] = breaker
        if breaker.holdsMore(than: before) { opened(app) }
        return result
    }

    /// Drops every pending rejection of the app. siwatch asks about their users again at the daily check.
    private mutating func opened(_ app: String) {
        changes.openedApps.insert(app)
        for id in basis.users.keys where id.app == app {
            with(id) { [rules] in $0.forgetRejections(under: rules.policy) }
        }
    }

    /// What Apple's answers in any lane say of a client.
    mutating func hear(_ answer: ClientAnswer?, of clientID: String) {
        guard let answer else { return }
        if case .accepted(let time) = answer { changes.validAt[clientID] = latest(changes.validAt[clientID], time) }
        let known = basis.clients[clientID] ?? ClientRecord()
        var record = known
        record.hear(answer, at: now)
        basis.clients[clientID] = record
        if record.refusal != known.refusal { changes.refusals.updateValue(record.refusal, forKey: clientID) }
    }
}
