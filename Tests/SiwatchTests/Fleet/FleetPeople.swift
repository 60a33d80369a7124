// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialTesting
import DaemonHarness
import GRDB
import NIOConcurrencyHelpers

/// People who sign in, leave and come back, and their backend, which inserts rows for every lane, wave after wave.
///
/// People with a token may withdraw their consent, delete their accounts, come back, or switch their mail off. People with a code may leave
/// the app, so that siwatch must revoke their tokens. It asks nothing else about those.
actor FleetPeople {
    struct Told: Equatable {
        var tokens = 0
        var codes = 0
        var notifications = 0
        var requests = 0
    }

    enum Fact: Sendable {
        case signIns([SignIn])
        case codes([SignIn])
        case notifications([String])
        case leaving([String])
    }

    private(set) var told = Told()
    private(set) var facts: [Fact] = []
    private let site: Site
    private let looks: Backend
    private var generator: SeededGenerator
    private var present: [String] = []
    private var returning: [String] = []
    private var byCode: [String] = []
    private var last: [SignedNotification] = []
    private var requestsOwed = 0

    private static let clientIDs = SimulatedApple.clientIDs

    init(_ site: Site, seed: UInt64) throws {
        self.site = site
        looks = try Backend(site.schema!)
        generator = SeededGenerator(seed: seed)
    }

    func wave(_ count: Int) async throws {
        try await signIn(count)
        // A few codes get lost with the replica that sent them, and their people cannot leave.
        try await signInByCode(count + count / 16 + 1)
        try await makeNews(count)
        requestsOwed += count
        try await leave()
    }

    /// Inserts wave after wave while `body` runs. The next wave comes when little is left of the one before.
    nonisolated func keepComing(_ count: Int, while body: () async throws -> Void) async throws {
        let isOver = NIOLockedValueBox(false)
        let rest = "\(Self.waiting) + (\(Self.due))"
        async let waves: Void = {
            while !isOver.withLockedValue({ $0 }) {
                try await wave(count)
                try await looks.first(of: rest, within: .seconds(600)) { $0 <= count || isOver.withLockedValue { $0 } }
            }
        }()
        try await body()
        isOver.withLockedValue { $0 = true }
        try await waves
    }

    /// Waits until at most this many more rows have been claimed or settled, somewhere during the work on a wave.
    func untilAmidWork(of count: Int) async throws {
        let queues = ["notification_queue", "grant_queue", "revocation_queue", "revocation"]
        let claimed = queues.map { "(SELECT COUNT(*) FROM \($0) WHERE claimed_by IS NOT NULL)" }.joined(separator: " + ")
        let done = "SELECT (SELECT COALESCE(SUM(value), 0) FROM counter WHERE name LIKE '%_queue_removed') + \(claimed)"
        let goal = try await looks.int(done) + Int.random(in: 1...max(count, 1))
        guard try await looks.first(of: done, within: .seconds(60), where: { $0 >= goal }) >= goal else {
            throw HarnessError("nobody works")
        }
    }

    /// Signs a person in and waits for the result, to see that the fleet works.
    func signInAndWait(byCode: Bool) async throws {
        let signIn = try await byCode ? signInByCode(1)[0] : tell(signIns: site.apple.signIn(1))[0]
        try await looks.until("SELECT COUNT(*) FROM grant_log WHERE user_id = '\(signIn.userID)'", is: 1, within: .seconds(180))
    }

    private func signIn(_ count: Int) async throws {
        let back = returning.prefix(count / 4)
        returning.removeFirst(back.count)
        try await tell(signIns: try await site.apple.signIn(count - back.count))
        for clientID in Self.clientIDs {
            let users = back.enumerated().filter { Self.clientIDs[$0.offset % 2] == clientID }.map(\.element)
            if !users.isEmpty { try await tell(signIns: try await site.apple.signIn(users, clientID: clientID)) }
        }
    }

    @discardableResult
    private func tell(signIns: [SignIn]) async throws -> [SignIn] {
        try await site.tell(signIns)
        facts.append(.signIns(signIns))
        told.tokens += signIns.count
        // A person who has come back at another client stays, because a second withdrawal would date the first one's end anew.
        present += signIns.filter { $0.clientID == Self.clientIDs[0] }.map(\.userID)
        return signIns
    }

    @discardableResult
    private func signInByCode(_ count: Int) async throws -> [SignIn] {
        let signIns = try await site.apple.signInByCode(count)
        try await site.tell(codesOf: signIns)
        facts.append(.codes(signIns))
        told.codes += signIns.count
        byCode += signIns.map(\.userID)
        return signIns
    }

    private func makeNews(_ count: Int) async throws {
        let leaving = take(count * 4 / 10)
        let deleting = take((count + 19) / 20)
        let again = last.shuffled(using: &generator).prefix(count / 10)
        let forgeries = (count + 19) / 20
        let muting = take(count - leaving.count - deleting.count - again.count - forgeries)
        present += muting
        returning += leaving.prefix(leaving.count / 2)
        var news = try await site.apple.notify(RevokeConsent(), users: leaving)
        news += try await site.apple.notify(DeleteAccounts(), users: deleting)
        news += try await site.apple.notify(SwitchForwarding(on: .random(using: &generator)), users: muting)
        last = news.shuffled(using: &generator)
        let forged = try await site.apple.notify(
            FalseEvent(.consentRevoked),
            users: Array(present.suffix(forgeries)),
            Emission { $0.signature = .forged }
        ).map(\.body)
        try await site.tell(news + again)
        try await site.tell(forged, rejectedAs: "bad_signature")
        facts += [.notifications((news + again).map(\.body)), .notifications(forged)]
        told.notifications += news.count + again.count + forged.count
    }

    private func take(_ count: Int) -> [String] {
        (0..<min(count, present.count)).map { _ in
            present.swapAt(present.indices.randomElement(using: &generator)!, present.endIndex - 1)
            return present.removeLast()
        }
    }

    /// Lets the owed number of people leave the app, as far as siwatch knows that many.
    func leave() async throws {
        let candidates = byCode.prefix(requestsOwed * 2)
        guard !candidates.isEmpty else { return }
        let marks = candidates.map { _ in "?" }.joined(separator: ", ")
        let known = try await looks.rows(
            "SELECT user_id FROM user_state WHERE state = 'authorized' AND user_id IN (\(marks))",
            candidates.map { $0 }
        ).map { $0[0] as String }
        let leaving = Array(known.prefix(requestsOwed))
        byCode.removeFirst(candidates.count)
        byCode += Set(candidates).subtracting(leaving).sorted()
        guard !leaving.isEmpty else { return }
        try await site.tell(leaving: leaving, at: Self.clientIDs[0])
        facts.append(.leaving(leaving))
        told.requests += leaving.count
        requestsOwed -= leaving.count
    }

    /// Waits until the queues are empty, and says whether they are within the limit.
    func areAllSettled(within limit: Duration) async throws -> Bool {
        try await looks.first(of: Self.waiting, within: limit) { $0 == 0 } == 0
    }

    private static let waiting = """
        SELECT (SELECT COUNT(*) FROM notification_queue) + (SELECT COUNT(*) FROM grant_queue) + (SELECT COUNT(*) FROM revocation_queue)
        """

    /// Waits until siwatch has asked about all due credentials, and says whether it has within the limit.
    func areAllChecked(within limit: Duration) async throws -> Bool { try await looks.first(of: Self.due, within: limit) { $0 == 0 } == 0 }
    var checksDue: Int { get async throws { try await looks.int(Self.due) } }

    private static let due = "SELECT COUNT(*) FROM credential WHERE due_at <= \(ReplicaFleet.now)"

    /// Lets people whose code was lost sign in again, and returns their number.
    func signInAgain() async throws -> Int {
        let lost = try await looks.rows("SELECT user_id FROM grant_log WHERE outcome = 'rejected'").map { $0[0] as String }
        if !lost.isEmpty { try await tell(signIns: try await site.apple.signIn(lost, clientID: Self.clientIDs[0])) }
        return lost.count
    }
}
