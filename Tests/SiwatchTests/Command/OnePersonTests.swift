// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// `siwatch export` and `siwatch forget`, beside a daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct OnePersonTests {
    private func export(_ site: Site, _ user: String) async throws -> [String: Any] {
        let (status, output) = try await site.folder.siwatch("export", user)
        #expect(status == 0, "\(output)")
        return try #require(try JSONSerialization.jsonObject(with: Data(output.joined(separator: "\n").utf8)) as? [String: Any])
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aPersonIsGivenEverythingAndNoToken() async throws {
        let signIns = try await site.apple.signIn(2)
        let (user, other) = (signIns[0].userID, signIns[1].userID)
        try await site.daemon { _ in
            try await site.settle(signIns)
            let bodies = try await site.apple.notify(RevokeConsent(), users: [user]).map(\.body)
            // A message that Apple has signed, and whose signature was changed since.
            try await site.tell(bodies.map { $0.replacing("\"}", with: "xx\"}") }, rejectedAs: "bad_signature")
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
            let report = try await export(site, user)
            #expect(report["schema"] as? Int == 1 && report["user"] as? String == user)
            let tables = try #require(report["tables"] as? [String: [[String: Any]]])
            #expect(
                tables.filter { !$0.value.isEmpty }.keys.sorted() == [
                    "credential", "credential_change", "grant_log", "notification_quarantine", "user_event",
                ]
            )
            let credential = try #require(tables["credential"]?.first)
            #expect(credential["sealed_token"] as? String == "held" && credential["client_id"] as? String == SimulatedApple.clientIDs[0])
            #expect((credential["granted_at"] as? String)?.contains("T") == true)
            #expect(tables["user_event"]?.first?["email"] as? String == signIns[0].email)
            let text = try await site.folder.siwatch("export", user).output.joined()
            let token = try #require(signIns[0].refreshToken)
            #expect(!text.contains(other) && !text.contains(token))
        }
        #expect(try await export(site, other)["user"] as? String == other)
        #expect(try await site.folder.siwatch("export", "nobody").status == 1)
        #expect(try await site.folder.siwatch("export", user, "--app", "nowhere").status == 1)
    }

    @Test(arguments: SiteDatabase.allCases) func anExplanationNamesTheCheckThatNoticesWhatWasMissed(on database: SiteDatabase) async throws
    {
        try await Site.with(on: database) { site in
            let signIns = try await site.apple.signIn(1)
            let user = signIns[0].userID
            try await site.daemon { _ in
                try await site.settle(signIns)
                try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 1)
                let explained = try await site.folder.siwatch("explain", user).output.joined()
                #expect(explained.contains("If siwatch has missed that the user withdrew consent, the check at "), "\(explained)")
                try await site.folder.succeed("pause", "example")
                let paused = try await site.folder.siwatch("explain", user).output.joined()
                #expect(paused.contains("authorized") && !paused.contains("has missed"), "\(paused)")
            }
        }
    }

    @Test(arguments: SiteDatabase.allCases) func aDeletedPersonIsForgottenAndOldNewsBringsNobodyBack(on database: SiteDatabase) async throws
    {
        try await Site.with(on: database) { site in
            let signIns = try await site.apple.signIn(2)
            let user = signIns[0].userID
            let names = [user, try #require(signIns[0].email), try #require(signIns[0].refreshToken)]
            let daemon = try await site.daemon { daemon in
                try await site.settle(signIns)
                let refused = try await site.folder.siwatch("forget", user)
                #expect(refused.status == 1 && refused.output.joined().contains("signed in to example"), "\(refused.output)")
                let notifications = try await site.apple.notify(RevokeConsent(), users: [user])
                try await site.tell(notifications)
                try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 1)
                try await site.settle(try await site.apple.signIn([user], clientID: SimulatedApple.clientIDs[0]))
                try await site.tell(leaving: [user], at: SimulatedApple.clientIDs[0])
                try await site.backend.until("SELECT COUNT(*) FROM revocation_log WHERE outcome = 'proved'", is: 1)
                let (status, output) = try await site.folder.siwatch("forget", user)
                #expect(status == 0 && output.contains { $0.contains("requests to revoke 1") }, "\(output)")
                #expect(!output.joined().contains(user))
                if database == .file {
                    // siwatch logs the answer once it has emptied the database's log.
                    #expect(await daemon.line(containing: #""outcome":"forgotten""#) != nil)
                    let files = try site.folder.files(with: names)
                    #expect(files.keys.contains("siwatch.sqlite") && files.values.allSatisfy(\.isEmpty), "\(files)")
                }
                // A backend tells the old sign-in again, and Apple posts the old message again.
                try await site.backend.insert([signIns[0]])
                try await site.backend.insert(notifications: notifications.map(\.body))
                try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'stale'", is: 1)
                try await site.backend.until("SELECT COUNT(*) FROM notification_log WHERE outcome = 'duplicate'", is: 1)
            }
            #expect(!daemon.output.joined().contains(user))
            #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state") == 1)
            #expect(try await site.folder.siwatch("export", user).status == 1)
            #expect(try await site.folder.siwatch("explain", user).status == 1)
            #expect(try await site.folder.siwatch("forget", user).status == 1)
            let receipt = try await site.folder.siwatch("explain", user, "--receipts")
            #expect(receipt.status == 0 && receipt.output.joined().contains("accepts it no more"), "\(receipt.output)")
            if database == .file { #expect(try site.folder.files(with: names).values.allSatisfy(\.isEmpty)) }
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aPersonIsForgottenWithoutADaemonToo() async throws {
        let signIns = try await site.apple.signIn(1)
        let user = signIns[0].userID
        try await site.backend.insert(signIns)
        #expect(try await site.folder.run("run", "--once").status == 0)
        let (status, output) = try await site.folder.siwatch("forget", user, "--even-if-authorized", "--json")
        #expect(status == 0 && !output.joined().contains(user), "\(output)")
        let receipt = try #require(try JSONSerialization.jsonObject(with: Data(output.joined(separator: "\n").utf8)) as? [String: Any])
        #expect((receipt["pseudonym"] as? String)?.hasPrefix("forgotten:") == true)
        #expect((receipt["erased_rows"] as? [String: Int])?["credential"] == 1)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state") == 0)
        if site.schema == nil { #expect(try site.folder.files(with: [user]).values.allSatisfy(\.isEmpty)) }
    }
}
