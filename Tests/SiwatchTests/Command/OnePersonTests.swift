// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// `siwatch export` and `siwatch forget`, beside a daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct OnePersonTests {
    @Test(.site(onEach: SiteDatabase.allCases))
    func aPersonIsGivenEverythingAndNoTokenAndToldWhichCheckNoticesWhatWasMissed() async throws {
        let signIns = try await site.apple.signIn(2)
        let (user, other) = (signIns[0].userID, signIns[1].userID)
        try await site.daemon { _ in
            try await site.settle([signIns[0]])
            try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 1)
            try await site.folder.expect("explain \(user)", says: "If siwatch has missed that the user withdrew consent, the check at ")
            try await site.folder.succeed("pause", "example")
            try await site.folder.expect("explain \(user)", says: "authorized", not: "has missed")
            try await site.folder.succeed("resume", "example")
            try await site.settle([signIns[1]])
            let bodies = try await site.apple.notify(RevokeConsent(), users: [user]).map(\.body)
            // A message that Apple has signed, and whose signature was changed since.
            try await site.tell(bodies.map { $0.replacing("\"}", with: "xx\"}") }, rejectedAs: "bad_signature")
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
            try await site.folder.expect("export \(user)", 0, not: other, try #require(signIns[0].refreshToken))
            let report = try await site.folder.json("export \(user)")
            #expect(report["schema"] as? Int == 1 && report["user"] as? String == user)
            let tables = try #require(report["tables"] as? [String: [[String: Any]]])
            let filled = ["credential", "credential_change", "grant_log", "notification_quarantine", "user_event"]
            #expect(tables.filter { !$0.value.isEmpty }.keys.sorted() == filled)
            let credential = try #require(tables["credential"]?.first)
            #expect(credential["sealed_token"] as? String == "held" && credential["client_id"] as? String == SimulatedApple.clientIDs[0])
            #expect((credential["granted_at"] as? String)?.contains("T") == true)
            #expect(tables["user_event"]?.first?["email"] as? String == signIns[0].email)
        }
        #expect(try await site.folder.json("export \(other)")["user"] as? String == other)
        for arguments in ["nobody", "\(user) --app nowhere"] { try await site.folder.expect("export \(arguments)", 1) }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aDeletedPersonIsForgottenAndOldNewsBringsNobodyBack() async throws {
        let signIns = try await site.apple.signIn(2)
        let user = signIns[0].userID
        let names = [user, try #require(signIns[0].email), try #require(signIns[0].refreshToken)]
        let daemon = try await site.daemon { daemon in
            try await site.settle(signIns)
            try await site.folder.expect("forget \(user)", 1, "signed in to example")
            let notifications = try await site.apple.notify(RevokeConsent(), users: [user])
            try await site.tell(notifications)
            try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 1)
            try await site.settle(try await site.apple.signIn([user], clientID: SimulatedApple.clientIDs[0]))
            try await site.tell(leaving: [user], at: SimulatedApple.clientIDs[0])
            try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 1)
            try await site.folder.expect("forget \(user)", 0, "requests to revoke 1", not: user)
            if site.schema == nil {
                // siwatch logs the answer once it has emptied the database's log.
                #expect(await daemon.line(containing: #""outcome":"forgotten""#) != nil)
                let files = try site.folder.files(with: names)
                #expect(files.keys.contains("siwatch.sqlite") && files.values.allSatisfy(\.isEmpty), "\(files)")
            }
            // A backend tells the old sign-in again, and Apple posts the old message again.
            try await site.backend.insert([signIns[0]])
            try await site.backend.insert(notifications: notifications.map(\.body))
            try await site.backend.until(["grant_log WHERE outcome = 'stale'": 1, "notification_log WHERE outcome = 'duplicate'": 1])
        }
        #expect(!daemon.output.joined().contains(user))
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state") == 1)
        for command in ["export", "explain", "forget"] { try await site.folder.expect("\(command) \(user)", 1) }
        try await site.folder.expect("explain \(user) --receipts", 0, "accepts it no more")
        if site.schema == nil { #expect(try site.folder.files(with: names).values.allSatisfy(\.isEmpty)) }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aPersonIsForgottenWithoutADaemonToo() async throws {
        let signIns = try await site.apple.signIn(1)
        let user = signIns[0].userID
        try await site.backend.insert(signIns)
        try await site.folder.expect("run --once", 0)
        let output = try await site.folder.expect("forget \(user) --even-if-authorized --json", 0, not: user).joined(separator: "\n")
        let receipt = try #require(try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
        #expect((receipt["pseudonym"] as? String)?.hasPrefix("forgotten:") == true)
        #expect((receipt["erased_rows"] as? [String: Int])?["credential"] == 1)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state") == 0)
        if site.schema == nil { #expect(try site.folder.files(with: [user]).values.allSatisfy(\.isEmpty)) }
    }
}
