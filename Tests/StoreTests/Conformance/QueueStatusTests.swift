// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

/// The lengths of the queues, without counting rows.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct QueueStatusTests: ConformanceSuite {
    private func depths() async throws -> [String: Int] {
        Dictionary(uniqueKeysWithValues: try await store.ports.queues().map { ($0.queue, $0.depth) })
    }

    @Test func followsWhatComesAndGoes() async throws {
        #expect(try await depths() == ["notification": 0, "grant": 0, "revocation": 0])
        try await store.receive(3)
        try await store.grant(token: "r")
        try await store.grant(code: "c")
        try await store.requestRevocation()
        #expect(try await depths() == ["notification": 3, "grant": 2, "revocation": 1])

        let work = try await store.claimNotifications()
        _ = try await store.settle([
            .notification(work[0], .event(.emailEnabled(nil))), .notification(work[1], .rejected(.malformed, detail: "")),
            .notification(work[2], .postponed(until: .start + .minutes(1))),
        ])
        try await store.settleGrants(at: .start)
        #expect(try await depths() == ["notification": 1, "grant": 1, "revocation": 1])
        #expect(try await store.ports.queues().map(\.settled) == [2, 1, 0])
    }

    @Test func knowsTheOldestRow() async throws {
        #expect(try await store.ports.queues().map(\.oldest) == [nil, nil, nil])
        for minute in 1...3 {
            try await store.receive(at: .start + .minutes(minute))
            try await store.grant("user\(minute)", at: .start + .minutes(minute + 10))
        }
        let queues = try await store.ports.queues()
        #expect(queues.map(\.queue) == ["notification", "grant", "revocation"] && queues.map(\.depth) == [3, 3, 0])
        #expect(queues.map(\.oldest) == [1, 11].map { (.start + .minutes($0)).milliseconds } + [nil])
    }

    @Test func aKeyThatFreesRowsLengthensTheQueue() async throws {
        try await store.receive(2)
        let work = try await store.claimNotifications()
        _ = try await store.settle(work.map { .notification($0, .rejected(.unknownKey, detail: "new")) })
        #expect(try await depths()["notification"] == 0)
        let key = SigningKeyRecord(keyID: "new", jwk: "{}", lastSeenAt: .start)
        try await store.ports.remember([key], forgetting: [])
        #expect(try await depths()["notification"] == 2)
    }

    /// After a manual DELETE no process needs a restart.
    @Test func anEmptiedQueueIsEmpty() async throws {
        try await store.receive(1_000)
        try await store.run("DELETE FROM notification_queue")
        #expect(try await depths()["notification"] == 0)
        try await store.receive(3)
        #expect(try await depths()["notification"] == 3)
        try await store.run("DELETE FROM notification_queue WHERE id < (SELECT MAX(id) FROM notification_queue)")
        #expect(try await depths()["notification"] == 1)
    }

    private func log(_ number: Int, _ reason: String?, client: String = "app", at time: Timestamp = .start) async throws {
        let insert = "INSERT INTO grant_log (grant_id, client_id, granted_at, settled_at, outcome, reason) VALUES (1, ?, ?, ?, ?, ?)"
        let outcome: SQLValue = reason == nil ? "applied" : "rejected"
        for _ in 0..<number { try await store.run(insert, [.text(client), .at(time), .at(time), outcome, SQLValue(reason)]) }
    }

    private func found() async throws -> [RejectedSignIns] { try await store.ports.rejectedSignIns(since: .start - .hours(1)) }

    @Test func knowsWhatIsRejectedForOneReason() async throws {
        try await log(9, "code_used", at: .start - .hours(2))
        try await log(4, "redirect_uri_mismatch")
        try await log(5, "code_expired", client: "other")
        try await log(2, "bad_id_token", client: "other")
        #expect(try await found().isEmpty, "too few, or for several reasons")
        try await log(1, "redirect_uri_mismatch")
        try await log(1, nil)
        let one = try await found()
        #expect(one.map(\.clientID) == ["app"] && one.map(\.reason) == ["redirect_uri_mismatch"])
        #expect(one.map(\.rejected) == [5] && one.map(\.settled) == [6])
        try await log(1, nil)
        #expect(try await found().isEmpty)
    }

    /// People sign in all day, and then Apple's answers do not come: the newest twenty tell soon that it begins, and that it is over.
    @Test func knowsSoonThatApplesAnswersAreLost() async throws {
        try await log(200, nil)
        try await log(4, "answer_lost")
        #expect(try await found().isEmpty, "a crash loses some")
        try await log(1, "answer_lost")
        let lost = try await found()
        #expect(lost.map(\.reason) == ["answer_lost"] && lost.map(\.rejected) == [5] && lost.map(\.settled) == [20])
        try await log(16, nil)
        #expect(try await found().isEmpty)
        try await log(16, "redirect_uri_mismatch")
        #expect(try await found().map(\.reason) == ["redirect_uri_mismatch"], "what was good before hides it no longer")
    }

    /// Rows that siwatch has looked at and put off, by client, and rows of another lane. New rows do not count.
    @Test func knowsWhatWasPutOff() async throws {
        for user in ["a", "b", "c"] { try await store.grant(user, client: "elsewhere", token: "r") }
        try await store.grant("early", at: .start + .hours(2))
        try await store.grant(code: "c")
        let counts = { (limit: Int) in try await store.ports.waitingGrants(at: .start, upTo: limit) }
        #expect(try await counts(10) == WaitingGrants(withCode: 1, oldestCode: .start))
        try await store.settleGrants(at: .start) { work in
            // Apple's clock is an hour behind ours.
            work.grantedAt > .start ? .inFuture(due: work.grantedAt + .hours(1), lookedAt: .start) : .unknownClient(lookedAt: .start)
        }
        try await store.grant("new", client: "elsewhere")
        let early = WaitingGrants.PutOff(clientID: "app", isAhead: true, count: 1, since: .start)
        let others = WaitingGrants.PutOff(clientID: "elsewhere", isAhead: false, count: 3, since: .start)
        #expect(try await counts(10) == WaitingGrants(putOff: [early, others], withCode: 1, oldestCode: .start))
        #expect(try await counts(2).putOff.map(\.count).reduce(0, +) == 2)
        let ending = { (age: Duration) in try await store.ports.waitingGrants(at: .start + age, upTo: 10).codesEnding }
        #expect(try await ending(.minutes(3)) == 0)
        #expect(try await ending(.minutes(4)) == 1)
        #expect(try await ending(.minutes(5)) == 0, "it has ended")
    }

    /// `status`, the metrics and `doctor` read the same figures. A backlog of a moment ago is not counted again.
    @Test func anOverviewTellsOfEveryTable() async throws {
        try await store.signIn("user", token: "r")
        try await store.receive(1)
        try await store.grant(code: "c")
        var question = Overview.Question(at: .start + .days(2), teams: ["example": "TEAM"], canaries: ["example": ["user", "nobody"]])
        let overview = try await store.ports.overview(question)
        #expect(overview.at == question.at && overview.queues.map(\.depth) == [1, 1, 0] && overview.due["notification"] == 1)
        #expect(overview.credentials.filter { $0.count > 0 } == [CredentialCount(app: "example", state: "authorized", count: 1)])
        #expect(overview.overdue["example"] == 1 && overview.clients.filter(\.isScheduled).map(\.clientID) == ["app"])
        #expect(overview.unknownCanaries == [AppUserID(app: "example", userID: "nobody")] && overview.otherTeams.isEmpty)
        #expect(try await overview.apps == store.ports.apps())
        #expect(overview.backlog.waitingGrants.withCode == 1)
        question.backlog = Overview.Backlog()
        #expect(try await store.ports.overview(question).backlog.waitingGrants == WaitingGrants())
    }

    /// A postponed or claimed row cannot be taken.
    @Test func knowsWhatCouldBeTaken() async throws {
        let due = { (now: Timestamp) in try await store.ports.dueRows(at: now) }
        #expect(try await due(.start) == ["notification": 0, "grant": 0])
        try await store.receive(2)
        for client in ["app", "elsewhere"] { try await store.grant(client: client) }
        try await store.grant(code: "c")
        #expect(try await due(.start) == ["notification": 2, "grant": 3])
        _ = try await store.claimNotifications()
        try await store.settleGrants(at: .start) {
            $0.content?.credential.clientID == "app" ? .acceptance(of: $0) : .unknownClient(lookedAt: nil)
        }
        #expect(try await due(.start) == ["notification": 0, "grant": 1])
        #expect(try await due(.start + StoreUnderTest.lease) == ["notification": 2, "grant": 1])
    }

    /// A great id would be the last that SQLite can number, and any such id would count as rows that came.
    @Test(arguments: [.max, 9_000_000, 1, 0, -1, .min] as [Int64]) func anIDIsNotToBeGiven(_ id: Int64) async throws {
        for insert in [
            "notification_queue (id, payload) VALUES (?, 'jws')",
            "grant_queue (id, client_id, user_id) VALUES (?, 'app', 'user')",
            "revocation_queue (id, client_id, user_id) VALUES (?, 'app', 'user')",
        ] {
            for verb in ["INSERT INTO", "INSERT OR IGNORE INTO", "INSERT OR REPLACE INTO"] {
                try? await store.run("\(verb) \(insert)", [.integer(id)])
            }
        }
        // SQLite writes -1 where the row names no id, so siwatch notices the difference only later.
        try await store.receive(2)
        try await store.grant()
        try await store.requestRevocation()
        #expect(try await depths() == ["notification": 2, "grant": 1, "revocation": 1])
        #expect(try await store.column("SELECT id FROM notification_queue ORDER BY id") == [1, 2])
    }
}
