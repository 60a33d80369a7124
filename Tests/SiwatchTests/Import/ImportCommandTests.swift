// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// `siwatch import` beside a daemon and without one.
@Suite(.timeLimit(.minutes(10))) struct ImportCommandTests {
    private static let header = "user_id,client_id,refresh_token,granted_at\n"

    private func write(_ text: String, in site: Site) throws -> String {
        let path = site.folder.url.appending(path: "users.csv").path
        try Data(text.utf8).write(to: URL(filePath: path))
        return path
    }

    private func lines(_ signIns: [SignIn]) -> String {
        signIns.map { "\($0.userID),\($0.clientID),\($0.refreshToken ?? ""),\($0.grantedAt.milliseconds)\r\n" }.joined()
    }

    /// Lines with tokens that Apple never issued.
    private func strangers(_ count: Int) -> String {
        (1...count).map { "\(stranger($0)),com.example.app,r.never.\($0),1700000000\n" }.joined()
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func anImportIsTriedAndToldAndDoublesNothing() async throws {
        let path = try write("\u{FEFF}" + Self.header + lines(try await site.apple.signIn(100)), in: site)
        try await site.daemon { _ in
            let (status, output) = try await site.folder.siwatch("import", path, "--yes")
            #expect(status == 0, "\(output)")
            #expect(output.contains("Apple was asked about 40 samples: 40 accepted."), "\(output)")
            #expect(output.contains { $0.contains("100 sign-ins told.") }, "\(output)")
            #expect(!output.joined().contains("\r") && !output.joined().contains("\u{1B}"), "progress in a pipe")
            try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'", is: 100)
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") >= 40)
            let again = try await site.folder.siwatch("import", path, "--yes")
            #expect(again.status == 0 && again.output.contains { $0.contains("0 sign-ins told, and 100 before.") }, "\(again.output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 100)
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aWrongImportEndsAfterItsSamples() async throws {
        let path = try write(Self.header + strangers(200), in: site)
        try await site.daemon { _ in
            let (status, output) = try await site.folder.siwatch("import", path, "--yes")
            #expect(status == 65, "\(output)")
            let verdict = "Apple was asked about 40 samples: 40 rejected as ended or never issued to this client."
            #expect(output.contains(verdict) && output.contains { $0.contains("The other lines were not told.") }, "\(output)")
            #expect(output.contains { $0.contains("--no-trial") } && output.contains { $0.contains("40 sign-ins told.") }, "\(output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 40)
            let again = try await site.folder.siwatch("import", path, "--yes", "--json")
            #expect(again.status == 65 && again.output.contains("    \"rejected\" : 40,"), "\(again.output)")
            #expect(again.output.contains("  \"known_before\" : 40,"), "\(again.output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 40)
        }
    }

    /// An old revocation wins over a time that is too early. A token says nothing when it is told again, so the right times come without one.
    @Test(.site(onEach: SiteDatabase.allCases)) func timesThatWereTooEarlyAreCorrectedWithoutTokens() async throws {
        let people = try await site.apple.signIn(50)
        let now = people.map(\.grantedAt.milliseconds).max() ?? 0
        func lines(at time: Int64, tokens: Bool = true) -> String {
            Self.header + people.map { "\($0.userID),\($0.clientID),\(tokens ? $0.refreshToken ?? "" : ""),\(time)\n" }.joined()
        }
        func told(_ text: String, _ option: String = "--yes") async throws -> (status: Int32, output: String) {
            let (status, output) = try await site.folder.siwatch("import", try write(text, in: site), "--yes", option)
            return (status, output.joined(separator: "\n"))
        }
        let authorized = "SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'"
        try await site.daemon { _ in
            #expect(try await told(lines(at: now - 86_400_000)).status == 0)
            try await site.tell(try await site.apple.notify(RevokeConsent(), users: people.map(\.userID)))
            try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE state = 'revoked'", is: 50)
            let right = Int64(Date().timeIntervalSince1970 * 1000)
            let tried = try await told(lines(at: right))
            #expect(
                tried.status == 65 && tried.output.contains("asked about 40 samples: 40 known from an earlier sign-in."),
                "\(tried.output)"
            )
            #expect(tried.output.contains("import the true times with an empty refresh_token"), "\(tried.output)")
            let again = try await told(lines(at: right), "--no-trial")
            #expect(again.status == 0 && again.output.contains("50 of them changed nothing (retold)"), "\(again.output)")
            #expect(try await site.backend.int(authorized) == 0)
            let mended = try await told(lines(at: right, tokens: false))
            #expect(mended.status == 0 && !mended.output.contains("retold") && !mended.output.contains("asks Apple"), "\(mended.output)")
            #expect(try await site.backend.int(authorized) == 50)
        }
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func badLinesAreNamedAndTheOthersAreTold() async throws {
        let bad = (1...30).map { _ in "only,three,fields\n" }.joined()
        let path = try write(Self.header + strangers(600) + bad + ",com.example.app,secret.token,1700000000\n", in: site)
        let errors = site.folder.url.appending(path: "errors.txt").path
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait", "--errors", errors)
        #expect(status == 1, "\(output)")
        #expect(output.contains { $0.contains("600 sign-ins told.") } && output.contains("siwatch: 31 lines left out"), "\(output)")
        #expect(output.contains("siwatch: line 602: 3 fields, where the first line has 4"), "\(output)")
        #expect(output.contains("siwatch: and 11 more lines"), "\(output)")
        let all = try String(contentsOfFile: errors, encoding: .utf8)
        #expect(all.split(separator: "\n").count == 31 && all.hasSuffix("line 632: user_id is empty\n"))
        #expect(!all.contains("secret.token") && !output.joined().contains("secret.token"))
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 600)
        let again = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait", "--errors", errors)
        #expect(again.status == 64 && again.output == ["siwatch: \(errors) is there already: name a new file for --errors"])
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aKilledImportGoesOn() async throws {
        let path = try write(Self.header + strangers(20_000), in: site)
        let first = try site.folder.start("import", path, "--yes", "--no-trial", "--no-wait")
        try await site.backend.first(of: "SELECT COUNT(*) FROM grant_queue", within: .seconds(120)) { $0 > 0 }
        first.signal(SIGKILL)
        await first.exit()
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait")
        #expect(status == 0, "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 20_000)
        #expect(try await site.backend.int("SELECT COUNT(DISTINCT user_id) FROM grant_queue") == 20_000)
    }

    /// Standard input may be a file of which somebody has read a part.
    @Test(.site) func aFileIsReadFromWhereStandardInputStands() async throws {
        let path = try write("# of today\n" + Self.header + strangers(100), in: site)
        let script = "{ read -r comment; exec \"$0\" import - --yes --no-trial --no-wait --config \"$1\"; } <\"$2\""
        let program = try ChildProcess.program("siwatch").path
        let shell = try ChildProcess(URL(filePath: "/bin/sh"), ["-c", script, program, site.folder.configurationPath, path])
        #expect(await shell.exit() == 0, "\(shell.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 100)
    }

    @Test(.site) func nothingIsWrittenWithoutAYes() async throws {
        let path = try write(Self.header + strangers(20), in: site)
        let errors = site.folder.url.appending(path: "errors.txt").path
        let (status, output) = try await site.folder.siwatch("import", path, "--errors", errors)
        #expect(!FileManager.default.fileExists(atPath: errors))
        #expect(status == 64 && output.last == "siwatch: nothing was written; repeat the command with --yes", "\(output)")
        #expect(output.contains("Used columns: user_id, client_id, refresh_token, granted_at."), "\(output)")
        #expect(output.contains("granted_at is in seconds.") && !output.joined().contains("r.never"), "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    @Test(.site) func anotherCompanysFileIsRefused() async throws {
        let path = try write("id;name;plan\n1;Ann;gold\n", in: site)
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait")
        #expect(status == 64 && output.joined().contains("It names: id, name, plan"), "\(output)")
        let (none, words) = try await site.folder.siwatch("import", "/nowhere.csv", "--yes")
        #expect(none == 1 && words == ["siwatch: /nowhere.csv cannot be read: No such file or directory"], "\(words)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    /// It cannot be read twice.
    @Test(.site) func aPipeIsReadOnce() async throws {
        let path = site.folder.url.appending(path: "pipe").path
        #expect(mkfifo(path, 0o600) == 0)
        let text = "sub,refresh_token\n" + (1...3000).map { "\(stranger($0)),r.\($0)\n" }.joined()
        let process = try site.folder.start(
            "import",
            path,
            "--client-id",
            "com.example.web",
            "--granted-at",
            "1700000000",
            "--yes",
            "--no-trial",
            "--no-wait"
        )
        Thread.detachNewThread {
            let end = FileHandle(forWritingAtPath: path)
            try? end?.write(contentsOf: Data(text.utf8))
            try? end?.close()
        }
        #expect(await process.exit() == 0, "\(process.output)")
        #expect(process.output.contains { $0.contains("3,000 sign-ins told.") }, "\(process.output)")
        let dated = "SELECT COUNT(*) FROM grant_queue WHERE granted_at = 1700000000999"
        #expect(try await site.backend.int(dated) == 3000)
    }

    @Test(.site) func theLinesBeforeAnUnreadableOneAreTold() async throws {
        let path = try write(Self.header + strangers(600) + "short\n\"" + strangers(2), in: site)
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait")
        #expect(status == 1, "\(output)")
        let end = "\(path), line 603: a quote opens and does not close; nothing from this line on can be read"
        #expect(output.contains("siwatch: \(end)") && output.contains("siwatch: 1 line left out"), "\(output)")
        #expect(output.contains { $0.contains("600 sign-ins told.") }, "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 600)
    }

    @Test(.site) func nothingIsWrittenWithoutASiwatchThatRuns() async throws {
        let path = try write(Self.header + strangers(20), in: site)
        let (status, output) = try await site.folder.siwatch("import", path, "--yes")
        #expect(status == 69 && output.last?.hasPrefix("siwatch: siwatch does not run, so nothing was written") == true, "\(output)")
        #expect(!output.joined().contains("refresh token  signed in"), "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    @Test(.site) func nothingIsWrittenWhileTheAppIsPaused() async throws {
        let path = try write(Self.header + strangers(20), in: site)
        try await site.daemon { _ in
            #expect(try await site.folder.siwatch("pause", "example").status == 0)
            let (status, output) = try await site.folder.siwatch("import", path, "--yes")
            #expect(status == 69 && output.last?.hasPrefix("siwatch: the app example is paused") == true, "\(output)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 0)
        }
    }

    /// Apple's ids stand in another column. No notification would ever meet the others, and Apple would get the tokens of other providers.
    @Test(.site(onEach: SiteDatabase.allCases)) func aPlatformsOwnIdsAreRefused() async throws {
        let lines = (1...300).map { number in
            let identity = number > 3 ? "apple,\(stranger(number))" : "google,10203040"
            return "\(number),com.example.app,r.\(number),1700000000,\(identity)\n"
        }
        let text = "user_id,client_id,refresh_token,granted_at,provider,provider_id\n" + lines.joined()
        let path = try write(text, in: site)
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait", "--json")
        let words = """
            siwatch: 300 of 300 lines (100 %) are not of Apple's users, and are bad ones: in line 2 provider is "google", and Apple's look \
            like 001234.0123456789abcdef0123456789abcdef.0815. Is the column provider_id meant? Name it user_id. --any-id takes these \
            lines too.
            """
        #expect(status == 64 && output.contains(words), "\(output)")
        #expect(output.contains("siwatch: line 2: provider is not Apple"), "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)

        // With the right column, the lines of the other provider are left out.
        let renamed = try write(text.replacing("user_id,", with: "id,").replacing("provider_id", with: "sub"), in: site)
        let right = try await site.folder.siwatch("import", renamed, "--yes", "--no-trial", "--no-wait")
        #expect(right.status == 1 && right.output.contains("siwatch: line 4: provider is not Apple"), "\(right.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 297)

        let any = try await site.folder.siwatch("import", try write(text, in: site), "--yes", "--no-trial", "--no-wait", "--any-id")
        #expect(any.status == 0, "\(any.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 597)
    }

    /// Told by SQL, as over HTTP, they are taken, and somebody hears of it.
    @Test(.site(onEach: SiteDatabase.allCases)) func idsThatABackendTellsAndAreNotApplesAreAFinding() async throws {
        func finding() async throws -> Said.Finding? {
            let text = try await site.folder.siwatch("status", "--json").output.joined()
            let findings = try JSONDecoder().decode(Said.self, from: Data(text.utf8)).findings
            return findings.first { $0.sentence.contains("look like Apple's") }
        }
        try await site.daemon { _ in
            try await site.settle(try await site.apple.signIn(3))
            #expect(try await finding() == nil)
            for id in 11...17 {
                let row = "INSERT INTO grant_queue (client_id, user_id, granted_at) VALUES ('com.example.app', '\(id)', 1700000000000)"
                try await site.backend.execute(row)
            }
            try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 10)
            let words = "7 of the newest 10 sign-ins (70 %) have a user_id that does not look like Apple's "
            let said = try #require(try await finding())
            #expect(said.severity == "degraded" && said.sentence.hasPrefix(words), "\(said)")
            #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE user_id = '17'") == 1)
            // What goes away under many good ones is a note.
            try await site.settle(try await site.apple.signIn(90))
            let late = try #require(try await finding())
            #expect(late.severity == "note" && late.sentence.hasPrefix("7 of the newest 100 sign-ins (7 %)"), "\(late)")
        }
    }

    private struct Said: Decodable {
        var findings: [Finding]

        struct Finding: Decodable, Equatable {
            var severity: String
            var sentence: String
        }
    }

    @Test(.site) func aClientThatSiwatchDoesNotKnowIsNamed() async throws {
        let path = try write(Self.header + strangers(20) + "ann,com.example.other,r.x,1700000000\n", in: site)
        let (status, output) = try await site.folder.siwatch("import", path, "--yes", "--no-trial", "--no-wait")
        #expect(status == 64 && output.last?.hasPrefix("siwatch: siwatch does not know com.example.other:") == true, "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }
}
