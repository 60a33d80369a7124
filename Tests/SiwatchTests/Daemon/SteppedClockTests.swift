// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

struct SteppedClockTests {
    @Test(.site) func aSignInUnderAClockThatIsBehindIsKept() async throws {
        let clock = try await SteppedClock(in: site.folder)
        try await site.daemon(environment: clock.environment) { _ in
            try clock.step(to: .seconds(-3_600))
            let signIn = try await site.apple.signIn(1)
            try await site.backend.insert(signIn)
            // siwatch takes it at once if it knows Apple's clock, and otherwise puts it off.
            let seen = "SELECT (SELECT COUNT(*) FROM grant_queue WHERE due_at > 0 AND claimed_by IS NULL) + COUNT(*) FROM grant_log"
            try await site.backend.until(seen, is: 1)
            try clock.step(to: .zero)
            try await site.backend.insert(try await site.apple.signIn(1))
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'applied'", is: 2)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 2)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 2)
        }
    }

    /// The clock is an hour behind from the start on, and more notifications come than siwatch keeps of what it cannot use.
    @Test(.door(runs: false)) func underAClockThatIsBehindEachNotificationCounts() async throws {
        let clock = try await SteppedClock(in: site.folder)
        try clock.step(to: .seconds(-3_600))
        let people = try await site.apple.signIn(70)
        let news = try await site.apple.notify(RevokeConsent(), users: people.map(\.userID))
        try await site.daemon(environment: clock.environment) { daemon in
            var apple = try await Door(of: daemon, in: site.folder)
            apple.token = nil
            for notification in news {
                #expect(try await apple.post("/apple/notifications", bytes: Data(notification.body.utf8)).status == 200)
            }
            try await site.backend.until("SELECT COUNT(*) FROM notification_log WHERE outcome = 'applied'", is: 70)
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM notification_quarantine") == 0)
    }

    /// At the second start siwatch knows Apple's keys, and learns Apple's time from the answer that refuses its first client secret.
    @Test(.site(onEach: SiteDatabase.allCases, listen: "127.0.0.1:0")) func peopleSignInUnderAClockThatIsAhead() async throws {
        _ = try await site.apple.send(SetClock(offset: -90_000))
        for start in 1...2 {
            let daemon = try await site.daemon { daemon in
                try await site.tell(codesOf: try await site.apple.signInByCode(2))
                try await site.backend.until("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'", is: start * 2)
                let pages = try await OperationsPages(of: daemon)
                try await pages.expect("status.json", shows: "s ahead of Apple's\"", not: "siwatchapppaused", "refuses")
            }
            #expect(!daemon.output.contains { $0.contains("app_paused") }, "\(daemon.output)")
        }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log WHERE outcome <> 'applied'") == 0)
        let clock = "\nwarning  the clock that siwatch goes by is "
        try await site.folder.expect("doctor --before-start --online", 0, "\nok       Apple accepts ", clock)
    }

    /// The clock is eight days ahead for a moment, while the program runs and while it starts.
    @Test(.site) func aClockThatIsAheadEndsNoWaitAndForgetsNothing() async throws {
        let clock = try await SteppedClock(in: site.folder)
        let now = Int64(Date.now.timeIntervalSince1970 * 1000)
        func logged(_ days: Int64) async throws {
            try await site.backend.execute(
                """
                INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
                VALUES ('example', ?1, 'com.example.app', 'u', 'other', 0, ?2, ?2, 'duplicate')
                """,
                ["\(days)", now - days * 86_400_000]
            )
        }
        func left() async throws -> [String] {
            try await site.backend.rows("SELECT jti FROM notification_log ORDER BY jti").map { $0[0] as String }
        }
        for days: Int64 in [99, 85] { try await logged(days) }
        #expect(try await site.folder.run("run", "--once", environment: clock.environment).status == 0)
        #expect(try await left() == ["85"])

        try await site.daemon(environment: clock.environment) { daemon in
            let values = "('com.example.forgotten', 'ann', 'r')"
            try await site.backend.execute("INSERT INTO grant_queue (client_id, user_id, refresh_token) VALUES \(values)")
            try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE due_at > 0 AND claimed_by IS NULL", is: 1)
            try clock.step(to: .seconds(8 * 86_400))
            #expect(await daemon.line(containing: "clock_doubted") != nil)
            try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE due_at > \(now + 8 * 86_400_000)", is: 1)
            try clock.step(to: .zero)
            // Without a token, because siwatch is to ask Apple nothing eight days ahead.
            var signIn = try await site.apple.signIn(1)
            signIn[0].refreshToken = nil
            try await site.settle(signIn)
        }
        try clock.step(to: .seconds(8 * 86_400))
        #expect(try await site.folder.run("run", "--once", environment: clock.environment).status == 0)
        #expect(try await left() == ["85"])
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue WHERE refresh_token = 'r'") == 1)
    }
}
