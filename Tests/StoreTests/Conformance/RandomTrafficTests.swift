// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import DaemonHarness
import Testing

/// With any rows in any order and any crash in between, the store loses nothing, and the counters match the rows.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct RandomTrafficTests: ConformanceSuite {
    @Test(arguments: 1...Length.of(2, full: 20) as ClosedRange<UInt64>) func everyRowIsSomewhere(_ seed: UInt64) async throws {
        var traffic = RandomTraffic(store: store, seed: seed)
        for _ in 0..<40 {
            try await traffic.step()
            try await expectEverythingToAddUp(traffic)
        }
        try await traffic.drain()
        try await expectEverythingToAddUp(traffic)
        #expect(try await store.count("notification_queue") == 0)
        #expect(try await store.count("grant_queue") == 0)
    }

    private func expectEverythingToAddUp(_ traffic: RandomTraffic) async throws {
        let pending = (try await store.count("notification_queue"), try await store.count("grant_queue"))
        let logged = (try await store.count("notification_log"), try await store.count("grant_log"))
        let quarantined = try await store.count("notification_quarantine")
        #expect(traffic.received == pending.0! + logged.0! + quarantined! + traffic.evicted)
        #expect(traffic.granted == pending.1! + logged.1!)

        #expect(try await store.ports.queues().map { Int64($0.depth) } == [pending.0, pending.1, 0])
        let counted = try await store.rows("SELECT app, state, COUNT(*) FROM credential_state GROUP BY app, state ORDER BY app, state")
        let counts = try await store.ports.credentialCounts().filter { $0.count != 0 }
        #expect(counts.map { [.text($0.app), .text($0.state), .integer(Int64($0.count))] } == counted)
    }
}

/// Backends that insert, and a daemon that claims, settles and sometimes dies, by a seed.
struct RandomTraffic {
    let store: StoreUnderTest
    private var generator: SeededGenerator
    private var now = Timestamp.start
    /// Settlements already made. A process that was frozen may try them again.
    private var settled: [Settlement] = []

    private(set) var received: Int64 = 0
    private(set) var granted: Int64 = 0
    private(set) var evicted: Int64 = 0

    private static let users = ["u1", "u2", "u3", "u4"]
    private static let clients = ["app", "web", "elsewhere"]
    private static let kinds: [Event.Kind] = [
        .consentRevoked, .accountDeleted, .emailEnabled(EmailAddress("a@example.com")), .emailDisabled(nil), .unknown,
    ]

    init(store: StoreUnderTest, seed: UInt64) {
        self.store = store
        generator = SeededGenerator(seed: seed)
    }

    mutating func step() async throws {
        now = now + .seconds(Int.random(in: 0...90, using: &generator))
        switch Int.random(in: 0..<12, using: &generator) {
        case 0...2: try await insertNotification()
        case 3...4: try await insertGrant()
        case 5...6: try await settle(claimNotifications())
        case 7...8: try await settle(claimGrants())
        case 9: try await settle(claimCredentials())
        case 10: try await die()
        default: try await settleAgain()
        }
    }

    mutating func drain() async throws {
        while try await store.count("notification_queue")! + store.count("grant_queue")! > 0 {
            now = now + .minutes(10)
            try await settle(claimGrants())
            try await settle(claimNotifications())
        }
    }

    private mutating func insertNotification() async throws {
        let count = Int.random(in: 1...5, using: &generator)
        try await store.receive(count, at: now)
        received += Int64(count)
    }

    private mutating func insertGrant() async throws {
        let token: String? = Bool.random(using: &generator) ? "r\(Int.random(in: 1...3, using: &generator))" : nil
        let client = (Self.clients + ["forgotten"]).randomElement(using: &generator)!
        let user = Self.users.randomElement(using: &generator)!
        let email = EmailAddress("a\(Int.random(in: 1...2, using: &generator))@example.com")
        try await store.grant(user, client: client, token: token, email: email, at: recently())
        granted += 1
    }

    /// A moment of the last hour, often one used before.
    private mutating func recently() -> Timestamp { now - .minutes(10 * Int.random(in: 0...6, using: &generator)) }

    private mutating func claimNotifications() async throws -> [Settlement] {
        try await store.claimNotifications(upTo: Int.random(in: 1...10, using: &generator), at: now).map { work in
            .notification(work, verdict(on: work))
        }
    }

    private mutating func verdict(on work: ClaimedNotification) -> NotificationVerdict {
        if work.claim.isPoison { return .rejected(.poison, detail: "") }
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: return .postponed(until: now + .minutes(1))
        case 1: return .rejected(RejectionReason.allCases.randomElement(using: &generator)!, detail: "")
        default:
            let (kind, user) = (Self.kinds.randomElement(using: &generator)!, Self.users.randomElement(using: &generator)!)
            return .event(kind, user, client: Self.clients.randomElement(using: &generator)!, at: recently())
        }
    }

    private mutating func claimGrants() async throws -> [Settlement] {
        try await store.claimGrants(upTo: Int.random(in: 1...10, using: &generator), at: now).map { work in
            if work.claim.isPoison { return .grant(work, .rejected(.poison)) }
            let isKnown = work.content.map { Self.clients.contains($0.credential.clientID) } ?? false
            return .grant(work, isKnown ? .acceptance(of: work) : .unknownClient(lookedAt: now))
        }
    }

    private mutating func claimCredentials() async throws -> [Settlement] {
        now = now + .days(1)
        var settlements: [Settlement] = []
        for app in ["example", "other"] {
            settlements += try await store.admissions(of: app, at: now)
            settlements += try await store.claimCredentials(of: app, upTo: 3, at: now).map { work in
                let verdicts = [RefreshVerdict.valid(at: now), .rejected(at: now), .unclear(answeredAt: now), .failure(at: now)]
                return .refresh(work, verdicts.randomElement(using: &generator)!)
            }
        }
        return settlements
    }

    private mutating func settle(_ settlements: [Settlement]) async throws {
        let batch = try await store.settle(settlements, at: now)
        evicted += Int64(batch.evicted)
        settled += settlements
    }

    private mutating func die() async throws {
        _ = try await store.claimNotifications(upTo: 5, at: now)
        _ = try await store.claimGrants(upTo: 5, at: now)
        _ = try await store.claimCredentials(upTo: 1, at: now)
    }

    /// The store tells a process that comes back late that its claims are over.
    private mutating func settleAgain() async throws {
        let again = settled.shuffled(using: &generator).prefix(5)
        evicted += Int64(try await store.settle(Array(again), at: now).evicted)
    }
}
