// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialTesting
import DaemonHarness
import Foundation
import GRDB
import Testing

/// Webhooks when siwatch and their receiver die at random moments. `make test-kills` runs it at its full length.
struct WebhookKillTests {
    private static let kills = setting("SIWATCH_TEST_KILLS", 6)
    private static let seed = setting("SIWATCH_TEST_SEED", UInt64.random(in: 0...9_999))
    /// Who dies at one moment, and comes back in the same order.
    private static let strikes: [[Victim]] = [[.siwatch], [.receiver], [.siwatch, .receiver], [.receiver, .siwatch]]
    private static let signIns = 16
    private static let revocations = 4
    /// A sign-in makes two changes: of the state, and of the address.
    private static let mostWebhooks = signIns * 2 + revocations

    /// Each change comes, with the same id and the same body each time, and no other change has that id.
    @Test(.timeLimit(.minutes(kills > 6 ? 1440 : 10)), arguments: SiteDatabase.allCases)
    func killsLoseNoChange(on database: SiteDatabase) async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let file = folder.url.appending(path: "webhooks")
        let first = try await ReceiverProcess(keepingIn: file, refused: 0, seed: 0)
        defer { first.process.signal(SIGKILL) }
        let table = try Hook.table(in: folder, host: ReceiverProcess.host, port: first.port)
        try await Site.with(folder, on: database, table) { site in
            let daemon = try await site.folder.startDaemon()
            var pair = WebhookPair(site: site, file: file, daemon: daemon, receiver: first)
            defer { pair.end() }
            var generator = SeededGenerator(seed: Self.seed)
            var strikes: [[Victim]] = []
            var users: [String] = []
            var (deaths, events) = (0, 0)
            // Also until a kill has struck between the disk and the answer, so that a webhook comes twice.
            func hasRepeated() throws -> Bool {
                let hooks = try ReceiverProcess.hooks(in: file)
                return hooks.count > Set(hooks.map(\.id)).count
            }
            while try deaths < Self.kills || !hasRepeated() {
                let goal = pair.receiver.kept + Int.random(in: 1...Self.mostWebhooks, using: &generator)
                let signIns = try await site.apple.signIn(Self.signIns)
                try await site.tell(signIns)
                if !users.isEmpty { try await site.tell(try await site.apple.notify(RevokeConsent(), users: users)) }
                events += signIns.count + users.count
                users = signIns.prefix(Self.revocations).map(\.userID)
                try await pair.untilAmidDeliveries(keeping: goal)

                if strikes.isEmpty { strikes = Self.strikes.shuffled(using: &generator) }
                let strike = strikes.removeLast()
                for victim in strike { try await pair.kill(victim) }
                for victim in strike { try await pair.start(victim, seed: generator.next()) }
                deaths += strike.count
            }

            try await pair.kill(.receiver)
            try await pair.kill(.siwatch)
            try await pair.start(.receiver, refused: 0, seed: 0)
            try await pair.start(.siwatch, seed: 0)
            try await pair.replay()
            try await site.backend.until("\(WebhookPair.unsent) + (SELECT COUNT(*) FROM delivery_retry)", is: 0)

            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_change WHERE kind = 'state'") == events)
            let hooks = try ReceiverProcess.hooks(in: file)
            let changes = Set(try await site.backend.rows("SELECT id FROM credential_change").map { $0[0] as Int })
            let told = Set(hooks.map(\.change))
            let facts = "\(deaths) kills, seed \(Self.seed), \(changes.count) changes, \(hooks.count) webhooks"
            #expect(told == changes, "missing: \(changes.subtracting(told)), \(facts)")
            #expect(Set(hooks.map(\.id)).count == changes.count, "\(facts)")
            #expect(Set(hooks).count == changes.count, "\(facts)")
            #expect(hooks.count > changes.count, "\(facts)")
        }
    }
}

private enum Victim { case siwatch, receiver }

/// siwatch and its receiver, which the test kills and starts again.
private struct WebhookPair: Sendable {
    let site: Site
    /// Of the receiver.
    let file: URL
    var daemon: ChildProcess
    var receiver: ReceiverProcess

    private static let queued = "SELECT (SELECT COUNT(*) FROM grant_queue) + (SELECT COUNT(*) FROM notification_queue)"
    /// SQL: counts what siwatch has not sent for the first time.
    static let unsent = "\(queued) + (SELECT COALESCE(MAX(id), 0) FROM credential_change) - (SELECT cursor FROM delivery)"

    /// With more changes that wait for another try, the test replays them.
    private static let mostWaiting = 100

    /// Waits until the receiver has taken this many different webhooks, or siwatch waits for the receiver, or siwatch has nothing new to
    /// send.
    func untilAmidDeliveries(keeping goal: Int) async throws {
        // On a server, what a killed siwatch has claimed waits for a minute. LaneKillTests kills siwatch among claims.
        try await site.backend.until(Self.queued, is: 0)
        await withTaskGroup(of: Void.self) { [site, daemon, receiver] group in
            group.addTask { await receiver.keeps(goal) }
            group.addTask { _ = await daemon.line(containing: "\"event\":\"delivery_failed\"") }
            group.addTask { _ = try? await site.backend.first(of: Self.unsent, within: .seconds(60)) { $0 == 0 } }
            await group.next()
            group.cancelAll()
        }
        try Task.checkCancellation()
        // After two failures, a change waits for five minutes.
        if try await site.backend.int("SELECT COUNT(*) FROM delivery_retry") > Self.mostWaiting { try await replay() }
    }

    func kill(_ victim: Victim) async throws {
        switch victim {
        case .siwatch:
            await daemon.end(by: SIGKILL)
            // The lease of the dead siwatch ends at once. By itself it would end after three seconds.
            if site.schema != nil { try await site.backend.execute("UPDATE lane SET until = 0") }
        case .receiver:
            await receiver.process.end(by: SIGKILL)
        }
    }

    /// - Parameter refused: how many of 100 webhooks the receiver refuses.
    mutating func start(_ victim: Victim, refused: Int = 12, seed: UInt64) async throws {
        switch victim {
        case .siwatch: daemon = try await site.folder.startDaemon()
        case .receiver:
            receiver = try await ReceiverProcess(keepingIn: file, port: receiver.port, refused: refused, seed: seed)
        }
    }

    func replay() async throws { try await site.folder.succeed("delivery", "replay", "hook") }

    func end() {
        daemon.signal(SIGKILL)
        receiver.process.signal(SIGKILL)
    }
}
