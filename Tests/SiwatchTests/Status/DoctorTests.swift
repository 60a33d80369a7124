// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

struct DoctorTests {
    @Test(.site(onEach: SiteDatabase.allCases, ["operations": "socket = \"siwatch.sock\""])) func itSaysWhyNothingAppears() async throws {
        let down = try await site.folder.expect("doctor", 2, "\nwrong    no siwatch runs on this database\n")
        #expect(!down.contains { $0.hasPrefix("ok ") && $0.contains("can be written") }, "the daemon says it: \(down)")
        try await site.daemon { _ in
            let user = try await site.apple.signIn(1)
            let unknown = "\nwrong    no backend has told siwatch of the user \(user[0].userID)\n"
            try await site.folder.expect("doctor \(user[0].userID)", 2, unknown)
            try await site.settle(user)
            // The endpoints are not Apple's.
            let well = "\nok       siwatch works, backends can insert, Apple answers, and nothing is late\n"
            try await site.folder.expect("doctor \(user[0].userID)", 1, well, "authorized", not: "\nwrong")
        }
        try FileManager.default.removeItem(at: site.folder.url.appending(path: "siwatch.key"))
        let keyless = try await site.folder.expect("doctor", 2, not: "the keys that it names are good")
        #expect(keyless.contains { $0.hasPrefix("wrong    encryption.key_file: ") && $0.contains(" is missing") }, "\(keyless)")
        try site.folder.edit("team_id", "team_ids")
        let broken = try await site.folder.expect("doctor", 2)
        #expect(broken.contains { $0.hasPrefix("wrong    ") && $0.contains("team_ids") }, "\(broken)")
    }

    /// Apple signed that the user has left, and siwatch could not believe it.
    @Test(.daemon(onEach: SiteDatabase.allCases)) func itNamesNewsOfTheUserThatIsInQuarantine() async throws {
        let users = try await site.apple.signIn(2)
        try await site.settle(users)
        let foreign = Emission { $0.audience = .exactly("com.example.lost") }
        try await site.backend.insert(
            notifications: try await site.apple.notify(RevokeConsent(), users: [users[0].userID], foreign).map(\.body)
        )
        try await site.backend.until("SELECT COUNT(*) FROM notification_quarantine", is: 1)
        let id = try await site.backend.int("SELECT id FROM notification_quarantine")
        let words = "Apple's news of the user is in quarantine (wrong_audience), and siwatch does not believe it"
        try await site.folder.expect("doctor \(users[0].userID)", 1, "\nwarning  \(words)\n", "then siwatch quarantine retry \(id)\n")
        try await site.folder.expect("explain \(users[0].userID)", says: "\n\(words): mend")
        try await site.folder.expect("explain \(users[0].userID) --json", says: "\"reason\" : \"wrong_audience\"")
        try await site.folder.expect("explain \(users[1].userID)", 0, not: "quarantine")
    }

    /// `nobody` is in no group of ours. The mode bits of the site's files are those of `migrate`.
    @Test(.site) func itSaysWhetherABackendCanWrite() async throws {
        try await site.folder.expect("doctor --as nobody", 2, "\nwrong    nobody ")
        try await site.folder.expect("doctor --as no-such-user", says: "\nwrong    this host knows no user no-such-user\n")
        let owner = try #require(getpwuid(geteuid())).pointee.pw_name.map { String(cString: $0) } ?? ""
        try await site.folder.expect("doctor --as \(owner)", says: "\nok       \(owner) can write the database\n")
    }
}
