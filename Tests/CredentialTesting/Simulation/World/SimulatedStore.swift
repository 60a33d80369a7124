// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// The real store behind calls at which the process may die or the disk may fail.
///
/// The model sees each commit first. Then the store and the model are compared.
struct SimulatedStore: WorkStore {
    let store: any WorkStore
    let database: any SimulatedDatabase
    let world: SimulatedWorld
    let bug: PlantedBug?

    var holdsBackendsUp: Bool { store.holdsBackendsUp }
    var longestSilence: Duration { store.longestSilence }

    func claimNotifications(upTo limit: Int, at now: Timestamp, lease: Duration, suspects: Bool) async throws -> [ClaimedNotification] {
        try await claim {
            try await store.claimNotifications(upTo: limit, at: now, lease: lease, suspects: suspects)
        } effect: {
            $0.model.claimed($1)
            if !$1.isEmpty { $0.note("claimed notifications \($1.map(\.id))") }
        }
    }

    func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant] {
        let claimed = try await claim {
            world.with(\.isImporting) ? [] : try await store.claimGrants(upTo: limit, at: now, lease: lease)
        } effect: {
            $0.model.claimed($1, until: now.advanced(by: lease))
            if !$1.isEmpty { $0.note("claimed grants \($1.map(\.id))") }
        }
        // The process counts a look for sign-ins only after it got the answer.
        world.with { $0.model.tookGrants(at: $0.now) }
        return claimed
    }

    func claimCodes(
        upTo limit: Int,
        permits: [String: Int],
        at now: Timestamp,
        lease: Duration,
        suspects: Bool,
        quotas: [String: Int]
    ) async throws -> [ClaimedCode] {
        try await claim {
            let codes = try await store.claimCodes(upTo: limit, permits: permits, at: now, lease: lease, suspects: suspects, quotas: quotas)
            return bug?.codes(codes, at: now) ?? codes
        } effect: {
            $0.model.claimed($1, at: now)
            if !$1.isEmpty { $0.note("claimed codes \($1.map(\.id))") }
            for work in $1 { $0.report($0.ledger.codes.claimed(work, truly: $0.truth)) }
        }
    }

    func claimRevocationRequests(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedRevocationRequest] {
        try await claim {
            try await store.claimRevocationRequests(upTo: limit, at: now, lease: lease)
        } effect: {
            $0.model.claimed($1)
            if !$1.isEmpty { $0.note("claimed requests to revoke \($1.map(\.id))") }
        }
    }

    func dueRevocations(upTo limit: Int, at now: Timestamp, trusted: Timestamp?, quotas: [String: Int]) async throws -> [String: Int] {
        try await world.read { try await store.dueRevocations(upTo: limit, at: now, trusted: trusted, quotas: quotas) }
    }

    func claimRevocations(
        permits: [String: Int],
        at now: Timestamp,
        trusted: Timestamp?,
        policy: RefreshPolicy,
        quotas: [String: Int]
    ) async throws
        -> [DueRevocation]
    {
        try await claim {
            let claimed = try await store.claimRevocations(permits: permits, at: now, trusted: trusted, policy: policy, quotas: quotas)
            return bug?.revocations(claimed) ?? claimed
        } effect: {
            $0.model.claimed($1, at: now)
            for work in $1 { $0.note("claimed the revocation of \(work.id.clientID) \(work.id.userID)") }
        }
    }

    func firstRequestToRevoke(_ credential: CredentialID, since time: Timestamp) async throws -> Timestamp? {
        // The model sees the rows even if the read fails at first.
        world.with { $0.model.lookForRequest(of: credential, since: time) }
        return try await readInHand {
            bug == .requestDuringOutageOverlooked ? nil : try await store.firstRequestToRevoke(credential, since: time)
        }
    }

    func isSignedIn(_ credential: CredentialID, besides row: Int64) async throws -> Bool {
        try await readInHand { bug == .strayTokenRevokedBlindly ? false : try await store.isSignedIn(credential, besides: row) }
    }

    func claimDueCredentials(
        of app: String,
        upTo limit: Int,
        firstChecks: Int,
        at now: Timestamp,
        policy: RefreshPolicy,
        preferring preferred: Set<String>,
        quotas: [String: Int]
    ) async throws -> [DueCredential] {
        try await claim {
            try await store.claimDueCredentials(
                of: app,
                upTo: limit,
                firstChecks: firstChecks,
                at: now,
                policy: policy,
                preferring: preferred,
                quotas: quotas
            )
        } effect: {
            $0.model.claimed($1)
            for work in $1 { $0.note("claimed \(work.id.clientID) \(work.id.userID), attempt \(work.claim.attempts)") }
        }
    }

    func claimFirstChecks(of clients: Set<String>, upTo limit: Int, at now: Timestamp, policy: RefreshPolicy) async throws
        -> [DueCredential]
    {
        try await claim {
            try await store.claimFirstChecks(of: clients, upTo: limit, at: now, policy: policy)
        } effect: {
            $0.model.claimed($1)
            for work in $1 { $0.note("tries \(work.id.clientID) with \(work.id.userID)") }
        }
    }

    func claimPendingRejections(
        of app: String,
        admittedBy admissions: [AdmissionRule],
        upTo limit: Int,
        at now: Timestamp,
        policy: RefreshPolicy
    ) async throws -> [DueCredential] {
        try await claim {
            let admissions = bug?.admissions(admissions, at: now) ?? admissions
            return try await store.claimPendingRejections(of: app, admittedBy: admissions, upTo: limit, at: now, policy: policy)
        } effect: {
            $0.model.claimed($1)
            for work in $1 { $0.note("claimed the rejection of \(work.id.clientID) \(work.id.userID)") }
        }
    }

    func takeCanaries(_ userIDs: Set<String>, of app: String, excluding excluded: Set<String>, upTo limit: Int, at now: Timestamp)
        async throws -> [DueCredential]
    {
        try await claim {
            try await store.takeCanaries(userIDs, of: app, excluding: excluded, upTo: limit, at: now)
        } effect: {
            for work in $1 { $0.note("takes the canary \(work.id.clientID) \(work.id.userID)") }
        }
    }

    func settle(_ settlements: [Settlement], under rules: SettlementRules, at now: Timestamp) async throws -> SettlementChanges {
        let settlements = settlements.map { bug?.settlement($0, at: now) ?? $0 }
        let rules = bug?.rules(rules) ?? rules
        let trouble = world.with { $0.nextTrouble() }
        if let trouble, trouble != .unknownAfter { throw trouble.error }
        let (batch, _) = try await world.call { () async throws -> (SettlementChanges, [ReferenceModel.QueuedRequest]) in
            let batch = try await store.settle(bug?.batch(settlements) ?? settlements, under: rules, at: now)
            return (batch, try queuedRequests())
        } effect: { state, committed in
            let (batch, requests) = committed
            state.settled(settlements, bug?.results(batch.results, of: settlements) ?? batch.results, under: rules, at: now)
            for _ in state.model.repeated { state.count(.requestRepeated) }
            state.report(state.model.number(requests, at: now))
        }
        if let trouble {
            world.with { $0.count(.lostAcknowledgement) }
            throw trouble.error
        }
        return batch
    }

    /// The requests to revoke in the queue. siwatch makes some itself.
    private func queuedRequests() throws -> [ReferenceModel.QueuedRequest] {
        try database.rows("SELECT id, client_id, user_id, effective_at, opened_at FROM revocation_queue ORDER BY id").map { row in
            let (effectiveAt, openedAt): (Int64?, Int64?) = (row[3], row[4])
            let effective = effectiveAt.map(Timestamp.init(milliseconds:))
            let credential = CredentialID(clientID: row[1], userID: row[2])
            return ReferenceModel.QueuedRequest(id: row[0], credential: credential, effectiveAt: effective, isOpen: openedAt != nil)
        }
    }

    /// A claim may fail before it claims anything, or after. Then no process works on the claimed rows until their lease ends.
    private func claim<Work: Sendable>(
        _ body: () async throws -> [Work],
        effect: (inout SimulatedWorld.State, [Work]) -> Void
    ) async throws -> [Work] {
        let trouble = world.with { $0.nextTrouble() }
        if let trouble, trouble != .unknownAfter {
            world.with { $0.count(.claimFailed) }
            throw trouble.error
        }
        let claimed = try await world.call(body, effect: effect)
        guard let trouble else { return claimed }
        if !claimed.isEmpty { world.with { $0.count(.claimLost) } }
        throw trouble.error
    }

    /// A read during a piece of work. If the process dies, the work has no effect, whatever it does with that error.
    private func readInHand<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        do {
            return try await world.read(body)
        } catch let crash as Crash {
            world.with { $0.hasDied = true }
            withUnsafeCurrentTask { $0?.cancel() }
            throw crash
        }
    }
}

extension SimulatedWorld.State {
    fileprivate mutating func settled(_ settlements: [Settlement], _ results: [Settled], under rules: SettlementRules, at now: Timestamp) {
        // Settle one after another: a batch may sign a user in twice, and the log reports the first sign-in.
        var touched = model.touched
        for (settlement, result) in zip(settlements, results) {
            model.touched = []
            let expected: [Settled]
            switch settlement {
            case .notification(let work, let verdict): expected = [model.settle(work, verdict, at: now)]
            case .grant(let work, let verdict):
                let credential = work.content?.credential
                let before = credential.flatMap { model.tokenText(of: $0) }
                let due: Timestamp? = if case .inFuture(let due, _) = verdict { due } else { nil }
                expected = [model.settle(work, due: due, at: now)]
                if let credential, before != model.tokenText(of: credential) { ledger.replaced(credential, at: truth) }
                if due != nil { count(.grantFromFuture) }
                if case .unknownClient = verdict { count(.grantOfDroppedClient) }
            case .refresh(let work, let verdict):
                let call = ledger.settled(work, verdict, result, at: truth)
                if result == .held { count(.held) }
                if result == .superseded, !model.isCurrent(work) { count(.tokenReplacedInFlight) }
                expected = model.settle(work, verdict, call, at: now)
                report(judge(verdict, call, of: work, result))
            case .admission(let work, let rejection):
                if model.goesAfterGrant(work, at: now) { count(.rejectionAwaitsGrant) }
                expected = model.settle(work, rejection, result, at: now)
                if result == .refreshed { report(judge(rejection, of: work)) }
            case .code(let work, _): expected = settled(work, result, at: now)
            case .revocationRequest(let work, let verdict):
                // The process knows Apple's clock to a second or two, or goes by its own.
                let latest = max(truth, now).advanced(by: .seconds(2))
                let (lookedAt, knowsTime) =
                    if case .accepted(let time, let knowsTime) = verdict { (min(time, latest), knowsTime) } else { (now, true) }
                expected = [model.settle(work, lookedAt: lookedAt, knowsTime: knowsTime, at: now)]
            case .revocation(let work, _): expected = settled(work, result, at: now)
            }
            note("\(settlement.summary): \(result)")
            observe(settlement, result)
            if !expected.contains(result) {
                report(Violation(.stateFollowsFromFacts, "settled as \(result), by the rules \(expected): \(settlement.summary)"))
            }
            model.noteAuthorized()
            touched.formUnion(model.touched)
        }
        model.touched = touched
    }

    /// A violation, if a settled 200 is not Apple's answer.
    private func judge(_ verdict: RefreshVerdict, _ call: AnsweredCall?, of work: DueCredential, _ result: Settled) -> Violation? {
        guard result == .refreshed, case .valid = verdict else { return nil }
        let user = work.id.userID
        guard let call else { return Violation(.stateFollowsFromFacts, "a fact about \(user) that nobody was asked for") }
        return call.outcome == .valid ? nil : Violation(.stateFollowsFromFacts, "\(user): \(call.outcome) became a 200")
    }

    /// A violation, if a believed rejection is not Apple's answer, or not true.
    private mutating func judge(_ rejection: PendingRejection, of work: DueCredential) -> Violation? {
        count(.admitted)
        if ledger.wasRepeated(rejection, of: work) { count(.admittedOnRepetition) }
        if let row = model.row(of: work.id) {
            count(row.neverAccepted ? .neverAccepted : row.reason == "token_rejected" ? .ended : .admitted)
        }
        if let team = model.team(of: Oracle.Token(work.token), at: work.id), !ledger.teams(of: rejection, work).contains(team) {
            return Violation(.noFalseRevocation, "a rejection of \(work.id.userID) is believed that Apple gave to another team")
        }
        return switch ledger.wasTrue(rejection, of: work) {
        case true?: nil
        case false?: Violation(.noFalseRevocation, "the rejection of a good token of \(work.id.userID) is believed")
        case nil: Violation(.stateFollowsFromFacts, "a rejection of \(work.id.userID) is believed that Apple never spoke")
        }
    }

    private mutating func observe(_ settlement: Settlement, _ result: Settled) {
        switch result {
        case .grant(_, let reason?): countRefusal(reason)
        case .revocation(let outcome, _): countReceipt(outcome)
        case .superseded: count(.superseded)
        case .notification(.duplicate): count(.duplicateNotification)
        case .notification(.stale): count(.staleNotification)
        case .grant(.duplicate, _): count(.duplicateGrant)
        case .grant(.retold, _): count(.retold)
        case .grant(.stale, _): count(.staleGrant)
        case .postponed:
            if case .notification(_, .verified) = settlement { count(.eventAwaitsGrant) }
            if case .notification(_, .postponed) = settlement { count(.unknownSigningKey) }
        case .heldBack: count(.requestHeld)
        case .notification, .quarantined, .grant, .refreshed, .held: break
        }
    }
}

extension Settlement {
    var summary: String {
        switch self {
        case .notification(let work, let verdict): "notification \(work.id), \(verdict)"
        case .grant(let work, _): "grant \(work.id) of \(work.grantedAt.milliseconds)"
        case .refresh(let work, let verdict): "refresh of \(work.id.clientID) \(work.id.userID), \(verdict)"
        case .code(let work, _): "code \(work.id) of \(work.grantedAt.milliseconds)"
        case .revocationRequest(let work, _): "request \(work.id) to revoke"
        case .revocation(let work, _): "revocation of \(work.id.clientID) \(work.id.userID), request \(work.request)"
        case .admission(let work, let rejection): "admission of \(work.id.clientID) \(work.id.userID), \(rejection)"
        }
    }
}
