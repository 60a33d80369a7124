// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

@Suite(.timeLimit(.minutes(10))) struct EndToEndTests {
    @Test(.daemon(onEach: SiteDatabase.allCases)) func whatAppleSaysStandsInTheTable() async throws {
        let signIns = try await site.apple.signIn(100)
        try await site.settle(signIns)
        let users = signIns.map(\.userID)
        let events =
            try await site.apple.notify(RevokeConsent(), users: Array(users[0..<10]))
            + site.apple.notify(DeleteAccounts(), users: Array(users[10..<15]))
            + site.apple.notify(DeleteAccounts(), users: Array(users[15..<20]), Emission { $0.deletionSpelling = .accountDelete })
            + site.apple.notify(SwitchForwarding(on: false), users: Array(users[20..<30]))
        try await site.tell(events + events)
        try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 60)

        #expect(try await site.audit().wrong == [])
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_change WHERE kind = 'state'") == 120)
    }

    @Test(.site(onEach: SiteDatabase.allCases, ["refresh": "interval = \"24h\""]))
    func aShorterIntervalCountsFromTheRestart() async throws {
        // Apple accepts their tokens from the start.
        let codes = try await site.apple.signInByCode(3).compactMap(CodeRow.init)
        try await site.daemon { _ in
            try await site.backend.insert(codes: codes)
            try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'applied'", is: 3)
        }
        let late = "SELECT COUNT(*) FROM credential_state WHERE next_check_at > verified_at + 10800000"
        #expect(try await site.backend.int(late) == 3)
        try site.folder.edit("interval = \"24h\"", "interval = \"1h\"")
        try await site.daemon { _ in try await site.backend.until(late, is: 0) }
    }

    @Test(.daemon) func everyKnownShapeOfANotificationIsRead() async throws {
        let shapes = [
            Emission { $0.eventsAsObject = true }, Emission { $0.eventTimeInSeconds = true }, Emission { $0.privateEmail = .bool },
            Emission { $0.privateEmail = .absent }, Emission { $0.audience = .exactly("com.example.web") },
            Emission { $0.audience = .primaryAppID },
        ]
        let revoked = "SELECT COUNT(*) FROM credential_state WHERE reason = 'consent_revoked' AND client_id = 'com.example.app'"
        for (round, shape) in shapes.enumerated() {
            // Seconds are coarser than the time of the sign-in that they end.
            let hourAgo = Moment.now(aheadBy: .seconds(-3600))
            var signIns = try await site.apple.signIn(2)
            for index in signIns.indices { signIns[index].grantedAt = hourAgo }
            try await site.settle(signIns)
            let events =
                try await site.apple.notify(RevokeConsent(), users: [signIns[0].userID], shape)
                + site.apple.notify(SwitchForwarding(on: false), users: [signIns[1].userID], shape)
            try await site.tell(events)
            try await site.backend.until("SELECT COUNT(*) FROM notification_log WHERE outcome = 'applied'", is: 2 * (round + 1))
            #expect(try await site.backend.int(revoked) == round + 1, "\(shape)")
        }
    }

    @Test(.daemon(onEach: SiteDatabase.allCases, ["refresh": "interval = \"1s\"", "breaker": "settle = \"100ms\""]))
    func aSilentRevocationIsFoundByAskingApple() async throws {
        let signIns = try await site.apple.signIn(20)
        try await site.settle(signIns)
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 20)
        // The notifications about it are lost.
        site.note(try await site.apple.notify(RevokeConsent(), users: signIns[0..<5].map(\.userID)))
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected'", is: 5)
        #expect(try await site.audit().wrong == [])
    }

    @Test(.site(["refresh": "interval = \"1s\""])) func appleAnsweringInvalidGrantForEverybodyRevokesNobody() async throws {
        var fault = Fault.answer(400, body: #"{"error":"invalid_grant","error_description":"The token has expired or has been revoked."}"#)
        fault.endpoint = .token
        try await site.apple.script(fault)
        let isOpen = "SELECT COUNT(*) FROM breaker WHERE json_extract(state, '$.openedAt') IS NOT NULL"
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(20))
            // Rejected tokens that Apple never accepted change nothing, and do not even count as an error of Apple.
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE answer = 'rejected'", is: 20)
            #expect(try await site.backend.int(isOpen) == 0)
            try await site.apple.send(ClearFaults())
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 20)
            try await site.apple.script(fault)
            // siwatch asks about each, waits, and asks again an interval later.
            try await site.backend.until(isOpen, is: 1)
            #expect(await daemon.line(containing: "No rejection of a token is believed") != nil)
            try await site.folder.expect("status", says: "\nbreaker example: open since")
        }
        // After a restart the breaker is unchanged until Apple answers normally.
        try await site.daemon { _ in
            #expect(try await site.backend.int(isOpen) == 1)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_change WHERE source = 'refresh'") == 0)
            try await site.apple.send(ClearFaults())
            #expect(try await site.folder.siwatch("breaker", "reset", "example").output == ["The breaker of example is closed."])
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE answer = 'valid'", is: 20)
        }
    }

    /// In a small app siwatch asks so rarely that the breaker stays closed. One user has really left.
    @Test(.site(["refresh": "interval = \"1h\"", "breaker": "settle = \"1ms\""]))
    func aTimeInWhichAppleRejectsEverybodySignsNobodyOut() async throws {
        let pending = "SELECT COUNT(*) FROM credential WHERE pending_since IS NOT NULL"
        func check(_ users: String) async throws {
            try await site.backend.execute(
                """
                UPDATE credential SET verified_at = verified_at - 4000000, answered_at = answered_at - 4000000,
                                      pending_since = pending_since - 4000000, pending_asked_at = pending_asked_at - 4000000,
                                      due_at = NULL;
                UPDATE client SET valid_at = valid_at - 4000000;
                UPDATE credential SET due_at = 0 WHERE \(users);
                """
            )
        }
        let signIns = try await site.apple.signIn(10)
        let gone = "user_id = '\(signIns[0].userID)'"
        try await site.daemon { _ in
            try await site.settle(signIns)
            try await check("true")
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 10)
            try await site.apple.script(.error("invalid_grant"))
            _ = try await site.apple.notify(RevokeConsent(), users: [signIns[0].userID])
            try await check("true")
            try await site.backend.until(pending, is: 10)
            try await site.apple.send(ClearFaults())
            try await check("NOT \(gone)")
            try await site.backend.until(pending, is: 1)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 10)
        }
        // To another process Apple must prove itself anew.
        try await check("user_id IN ('\(signIns[0].userID)', '\(signIns[1].userID)')")
        try await site.folder.expect("run --once", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected' AND \(gone)") == 1)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 9)
    }

    @Test(.daemon) func forgedAndMalformedNotificationsAreQuarantinedWithTheirReason() async throws {
        let signIns = try await site.apple.signIn(3)
        try await site.settle(signIns)
        let user = signIns[0].userID
        let genuine = try await site.apple.notify(FalseEvent(.consentRevoked), users: [signIns[1].userID])[0].body
        let (badSignature, elsewhere) = (Emission { $0.signature = .forged }, Emission { $0.audience = .exactly("com.somebody.else") })
        let forged = try await site.apple.notify(FalseEvent(.consentRevoked), users: [user], badSignature)
        let foreign = try await site.apple.notify(FalseEvent(.consentRevoked), users: [user], elsewhere)
        try await site.backend.insert(notifications: (forged + foreign).map(\.body) + ["{}", "not JSON", #"{"payload":7}"#])
        // A token that verifies, with a tail behind a NUL.
        let tailed = "CAST(CAST(? AS BLOB) || X'00' || X'7B7D' AS TEXT)"
        try await site.backend.execute("INSERT INTO notification_queue (payload) VALUES (\(tailed))", [genuine])
        try await site.backend.until("SELECT COUNT(*) FROM notification_queue", is: 0)
        let reasons = try await site.backend.rows("SELECT reason FROM notification_quarantine ORDER BY reason")
        #expect(reasons.map { $0[0] as String } == ["bad_signature", "malformed", "malformed", "malformed", "malformed", "wrong_audience"])
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state <> 'authorized'") == 0)
    }

    @Test(.site(onEach: SiteDatabase.allCases, ["refresh": "interval = \"1s\""])) func onceSettlesWhatIsDueAndEnds() async throws {
        var signIns = try await site.apple.signIn(300)
        for index in signIns.indices { signIns[index].grantedAt = signIns[index].grantedAt + .seconds(-100) }
        try await site.tell(signIns)
        try await site.tell(site.apple.notify(RevokeConsent(), users: signIns[0..<50].map(\.userID)))
        try await site.folder.expect("run --once", 0)
        try await site.backend.expect(["grant_queue": 0, "credential_state WHERE reason = 'consent_revoked'": 50])
    }
}
