// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

struct DoctorTests {
    @Test(.site(onEach: SiteDatabase.allCases, ["operations": "socket = \"siwatch.sock\""])) func itSaysWhyNothingAppears() async throws {
        let down = try await site.folder.siwatch("doctor")
        #expect(down.status == 2 && down.output.contains("wrong    no siwatch runs on this database"), "\(down)")
        #expect(!down.output.contains { $0.hasPrefix("ok ") && $0.contains("can be written") }, "the daemon says it: \(down)")
        try await site.daemon { _ in
            let user = try await site.apple.signIn(1)
            let unknown = try await site.folder.siwatch("doctor", user[0].userID)
            #expect(unknown.status == 2)
            #expect(unknown.output.contains("wrong    no backend has told siwatch of the user \(user[0].userID)"), "\(unknown)")
            try await site.settle(user)
            let (status, output) = try await site.folder.siwatch("doctor", user[0].userID)
            // The endpoints are not Apple's.
            #expect(status == 1 && !output.contains { $0.hasPrefix("wrong") }, "\(output)")
            #expect(output.contains("ok       siwatch works, backends can insert, Apple answers, and nothing is late"), "\(output)")
            #expect(output.contains { $0.contains("authorized") }, "\(output)")
        }
        try site.folder.edit("team_id", "team_ids")
        let broken = try await site.folder.siwatch("doctor")
        #expect(broken.status == 2 && broken.output.contains { $0.hasPrefix("wrong    ") && $0.contains("team_ids") }, "\(broken)")
    }

    /// Apple signed that the user has left, and siwatch could not believe it.
    @Test(.site(onEach: SiteDatabase.allCases)) func itNamesNewsOfTheUserThatIsInQuarantine() async throws {
        let users = try await site.apple.signIn(2)
        try await site.daemon { _ in
            try await site.settle(users)
            let foreign = Emission { $0.audience = .exactly("com.example.lost") }
            try await site.backend.insert(
                notifications: try await site.apple.notify(RevokeConsent(), users: [users[0].userID], foreign).map(\.body)
            )
            try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
            let id = try await site.backend.int("SELECT id FROM notification_quarantine")
            let words = "Apple's news of the user is in quarantine (wrong_audience), and siwatch does not believe it"
            let (status, output) = try await site.folder.siwatch("doctor", users[0].userID)
            #expect(status == 1 && output.contains("warning  \(words)"), "\(output)")
            #expect(output.contains { $0.hasSuffix("then siwatch quarantine retry \(id)") }, "\(output)")
            #expect(try await site.folder.siwatch("explain", users[0].userID).output.contains { $0.hasPrefix("\(words): mend") })
            let json = try await site.folder.siwatch("explain", users[0].userID, "--json").output.joined()
            #expect(json.contains("\"reason\" : \"wrong_audience\""), "\(json)")
            #expect(try await !site.folder.siwatch("explain", users[1].userID).output.joined().contains("quarantine"))
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func itSaysThatTheKeyIsGone() async throws {
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(1)) }
        try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
        let (status, output) = try await site.folder.siwatch("doctor")
        #expect(status == 2 && output.contains { $0.hasPrefix("wrong    encryption.key_file: ") && $0.contains(" is missing") })
        #expect(!output.contains { $0.contains("the keys that it names are good") }, "\(output)")
    }

    /// `nobody` is in no group of ours. The mode bits of the site's files are those of `migrate`.
    @Test(.site) func itSaysWhetherABackendCanWrite() async throws {
        let stranger = try await site.folder.siwatch("doctor", "--as", "nobody")
        #expect(stranger.status == 2)
        #expect(stranger.output.contains { $0.hasPrefix("wrong    nobody ") }, "\(stranger)")
        let unknown = try await site.folder.siwatch("doctor", "--as", "no-such-user")
        #expect(unknown.output.contains("wrong    this host knows no user no-such-user"))
        let owner = try #require(getpwuid(geteuid())).pointee.pw_name.map { String(cString: $0) } ?? ""
        let own = try await site.folder.siwatch("doctor", "--as", owner)
        #expect(own.output.contains("ok       \(owner) can write the database"), "\(own)")
    }
}
