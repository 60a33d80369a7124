// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Logging
import ServiceLifecycle
import Testing

@testable import siwatch

struct StopTests {
    @Test(.site(["refresh": "interval = \"1s\"\nmax_requests_per_second = 1000"])) func aStopUnderLoadLosesNothing() async throws {
        try await site.apple.script(.delay(.milliseconds(30)))
        let signIns = try await site.apple.signIn(300)
        let revocations = try await site.apple.notify(RevokeConsent(), users: signIns[0..<150].map(\.userID))
        try await site.daemon { _ in
            try await site.settle(Array(signIns[150...]))
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 150)
            // In the middle of refreshes, grants and notifications.
            try await site.tell(Array(signIns[..<150]))
            try await site.tell(revocations)
        }
        for queue in ["notification_queue", "grant_queue", "credential"] {
            #expect(try await site.backend.int("SELECT COUNT(*) FROM \(queue) WHERE claimed_by IS NOT NULL") == 0, "\(queue)")
        }
        try await site.daemon { _ in try await site.backend.until(["notification_log": 150, "grant_log": 300]) }
        #expect(try await site.audit().wrong == [])
    }

    /// I1, I2 and I7 after more than 30 kills at random moments while 5,000 rows pass.
    @Test(.site, .timeLimit(.minutes(20))) func killsLoseNothingAndRepeatNothing() async throws {
        var random = SystemRandomNumberGenerator()
        let signIns = try await site.apple.signIn(2500)
        let revocations = try await site.apple.notify(RevokeConsent(), users: signIns.map(\.userID))
        let logged = "SELECT (SELECT COUNT(*) FROM grant_log) + (SELECT COUNT(*) FROM notification_log)"

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                // The backend goes on inserting, whatever happens to the daemon.
                for start in stride(from: 0, to: 2500, by: 25) {
                    try await site.tell(Array(signIns[start..<start + 25]))
                    try await site.tell(revocations[start..<start + 25])
                    // As fast as the daemon takes them, so that every kill meets work.
                    try await site.backend.first(of: logged, within: .seconds(300)) { $0 >= start * 2 - 200 }
                }
            }
            for kill in 1...32 {
                let daemon = try await site.folder.startDaemon()
                // Some die at once, the others after a random amount of work.
                if kill % 4 != 0 {
                    let goal = min(try await site.backend.int(logged) + Int.random(in: 1...130, using: &random), 5000)
                    try await site.backend.first(of: logged, within: .seconds(60)) { $0 >= goal }
                    // Both lanes must advance. Otherwise five kills in a row would quarantine the same innocent row as poison.
                    let notified = "SELECT COUNT(*) FROM notification_log"
                    let before = try await site.backend.int(notified)
                    try await site.backend.first(of: notified, within: .seconds(60)) { $0 > before || $0 == 2500 }
                }
                await daemon.end(by: SIGKILL)
            }
            try await site.daemon { _ in
                try await group.waitForAll()
                try await site.backend.until(["grant_queue": 0, "notification_queue": 0])
            }
        }

        let backend = site.backend
        #expect(try await site.audit().wrong == [])
        #expect(try await backend.int("SELECT COUNT(DISTINCT jti) FROM notification_log") == 2500)
        #expect(try await backend.int("SELECT COUNT(*) FROM credential_change WHERE to_state = 'revoked'") == 2500)
        let repeated = "SELECT COUNT(*) FROM (SELECT 1 FROM credential_change GROUP BY user_id, kind, to_state, email HAVING COUNT(*) > 1)"
        #expect(try await backend.int(repeated) == 0)
        #expect(try await backend.int("SELECT SUM(count) FROM credential_count WHERE state = 'revoked'") == 2500)
        #expect(try await backend.rows("PRAGMA integrity_check").map { $0[0] as String } == ["ok"])
    }
}

@Suite(.timeLimit(.minutes(5))) struct TogetherTests {
    /// Ends only after the other has learnt of the stop, too.
    private struct Partner: Service {
        let heard: AsyncStream<Void>.Continuation
        let other: AsyncStream<Void>

        func run() async throws {
            try await gracefulShutdown()
            heard.finish()
            for await _ in other {}
        }
    }

    @Test func allHearOfAStopAtOnce() async throws {
        let (first, second) = (AsyncStream.makeStream(of: Void.self), AsyncStream.makeStream(of: Void.self))
        let together = ParallelServices(services: [
            Partner(heard: first.continuation, other: second.stream), Partner(heard: second.continuation, other: first.stream),
        ])
        let group = ServiceGroup(services: [together], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        async let end: Void = group.run()
        await group.triggerGracefulShutdown()
        try await end
    }

    @Test func oneThatFailsEndsAll() async {
        struct Failing: Service { func run() async throws { throw CancellationError() } }
        struct Endless: Service { func run() async throws { try await gracefulShutdown() } }
        await #expect(throws: CancellationError.self) { try await ParallelServices(services: [Endless(), Failing()]).run() }
    }
}
