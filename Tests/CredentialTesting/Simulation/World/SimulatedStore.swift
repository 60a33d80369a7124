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
