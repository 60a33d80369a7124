// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10))) struct ImportCommandTests {
    static let header = "user_id,client_id,refresh_token,granted_at\n"
    private static let blindly = "--yes --no-trial --no-wait"

    private func write(_ text: String, in site: Site) throws -> String {
        try site.folder.write(text, to: "users.csv")
        return site.folder.path("users.csv")
    }

    @Test(.daemon(onEach: SiteDatabase.allCases)) func anImportIsTriedAndToldAndDoublesNothing() async throws {
        let path = try write("\u{FEFF}" + Self.header + linesTelling(try await site.apple.signIn(100), end: "\r\n"), in: site)
        let samples = "\nApple was asked about 40 samples: 40 accepted.\n"
        let output = try await site.folder.expect("import \(path) --yes", 0, samples, "100 sign-ins told.")
        #expect(!output.joined().contains("\r") && !output.joined().contains("\u{1B}"), "progress in a pipe")
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'", is: 100)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL") >= 40)
        try await site.folder.expect("import \(path) --yes", 0, "0 sign-ins told, and 100 before.")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 100)
    }

    @Test(.daemon(onEach: SiteDatabase.allCases)) func aWrongImportEndsAfterItsSamples() async throws {
        let path = try write(Self.header + strangers(200), in: site)
        let verdict = "\nApple was asked about 40 samples: 40 rejected as ended or never issued to this client.\n"
        let rest = "The other lines were not told."
        try await site.folder.expect("import \(path) --yes", 65, verdict, rest, "--no-trial", "40 sign-ins told.")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 40)
        let (rejected, known) = ("\n    \"rejected\" : 40,\n", "\n  \"known_before\" : 40,\n")
        try await site.folder.expect("import \(path) --yes --json", 65, rejected, known)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM credential") == 40)
    }

    /// An old revocation wins over a time that is too early. A token that is told again says nothing, so the right times come without one.
    @Test(.daemon(onEach: SiteDatabase.allCases)) func timesThatWereTooEarlyAreCorrectedWithoutTokens() async throws {
        let people = try await site.apple.signIn(50)
        let now = people.map(\.grantedAt.milliseconds).max() ?? 0
        func lines(at time: Int64, tokens: Bool = true) -> String {
            Self.header + people.map { "\($0.userID),\($0.clientID),\(tokens ? $0.refreshToken ?? "" : ""),\(time)\n" }.joined()
        }
        func write(at time: Int64, tokens: Bool = true) throws -> String { try self.write(lines(at: time, tokens: tokens), in: site) }
        let authorized = "SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'"
        try await site.folder.expect("import \(write(at: now - 86_400_000)) --yes", 0)
        try await site.tell(try await site.apple.notify(RevokeConsent(), users: people.map(\.userID)))
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE state = 'revoked'", is: 50)
        let right = Int64(Date().timeIntervalSince1970 * 1000)
        let path = try write(at: right)
        let known = "asked about 40 samples: 40 known from an earlier sign-in."
        try await site.folder.expect("import \(path) --yes", 65, known, "import the true times with an empty refresh_token")
        try await site.folder.expect("import \(path) --yes --no-trial", 0, "50 of them changed nothing (retold)")
        #expect(try await site.backend.int(authorized) == 0)
        try await site.folder.expect("import \(write(at: right, tokens: false)) --yes", 0, not: "retold", "asks Apple")
        #expect(try await site.backend.int(authorized) == 50)
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func badLinesAreNamedAndTheOthersAreTold() async throws {
        let bad = (1...30).map { _ in "only,three,fields\n" }.joined()
        let path = try write(Self.header + strangers(600) + bad + ",com.example.app,secret.token,1700000000\n", in: site)
        let errors = site.folder.path("errors.txt")
        let command = "import \(path) \(Self.blindly) --errors \(errors)"
        let output = try await site.folder.expect(command, 1, "600 sign-ins told.", not: "secret.token")
        for line in ["31 lines left out", "line 602: 3 fields, where the first line has 4", "and 11 more lines"] {
            #expect(output.contains("siwatch: \(line)"), "\(output)")
        }
        let all = try String(contentsOfFile: errors, encoding: .utf8)
        #expect(all.split(separator: "\n").count == 31 && all.hasSuffix("line 632: user_id is empty\n") && !all.contains("secret.token"))
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 600)
        #expect(try await site.folder.expect(command, 64) == ["siwatch: \(errors) is there already: name a new file for --errors"])
    }

    @Test(.site(onEach: SiteDatabase.allCases)) func aKilledImportGoesOn() async throws {
        let path = try write(Self.header + strangers(20_000), in: site)
        let first = try site.folder.start("import", path, "--yes", "--no-trial", "--no-wait")
        try await site.backend.first(of: "SELECT COUNT(*) FROM grant_queue", within: .seconds(120)) { $0 > 0 }
        first.signal(SIGKILL)
        await first.exit()
        try await site.folder.expect("import \(path) \(Self.blindly)", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 20_000)
        #expect(try await site.backend.int("SELECT COUNT(DISTINCT user_id) FROM grant_queue") == 20_000)
    }

    /// Standard input may be a file of which somebody has read a part.
    @Test(.site) func aFileIsReadFromWhereStandardInputStands() async throws {
        let path = try write("# of today\n" + Self.header + strangers(100), in: site)
        let script = "{ read -r comment; exec \"$0\" import - --yes --no-trial --no-wait --config \"$1\"; } <\"$2\""
        let program = try ChildProcess.program("siwatch").path
        let shell = try ChildProcess.shell(script, program, site.folder.configurationPath, path)
        #expect(await shell.exit() == 0, "\(shell.output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 100)
    }

    @Test(.site) func whatCannotBeImportedIsSaidAndNothingIsWritten() async throws {
        let errors = site.folder.path("errors.txt")
        let path = try write(Self.header + strangers(20), in: site)
        let columns = "\nUsed columns: user_id, client_id, refresh_token, granted_at.\n"
        var output = try await site.folder.expect("import \(path) --errors \(errors)", 64, columns, not: "r.never")
        #expect(output.last == "siwatch: nothing was written; repeat the command with --yes", "\(output)")
        #expect(output.contains("granted_at is in seconds.") && !FileManager.default.fileExists(atPath: errors), "\(output)")
        output = try await site.folder.expect("import \(path) --yes", 69, not: "refresh token  signed in")
        #expect(output.last?.hasPrefix("siwatch: siwatch does not run, so nothing was written") == true, "\(output)")
        let none = try await site.folder.expect("import /nowhere.csv --yes", 1)
        #expect(none == ["siwatch: /nowhere.csv cannot be read: No such file or directory"], "\(none)")
        for (text, words) in [
            (Self.header + strangers(20) + "ann,com.example.other,r.x,1700000000\n", "\nsiwatch: siwatch does not know com.example.other:"),
            ("id;name;plan\n1;Ann;gold\n", "It names: id, name, plan"),
        ] { try await site.folder.expect("import \(write(text, in: site)) \(Self.blindly)", 64, words) }
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)
    }

    @Test(.site) func aPipeIsReadOnce() async throws {
        let path = site.folder.path("pipe")
        writeOnce("sub,refresh_token\n" + (1...3000).map { "\(stranger($0)),r.\($0)\n" }.joined(), toPipe: path)
        let options = "--client-id com.example.web --granted-at 1700000000 \(Self.blindly)"
        try await site.folder.expect("import \(path) \(options)", 0, "3,000 sign-ins told.")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue WHERE granted_at = 1700000000999") == 3000)
    }

    @Test(.site) func theLinesBeforeAnUnreadableOneAreTold() async throws {
        let path = try write(Self.header + strangers(600) + "short\n\"" + strangers(2), in: site)
        let end = "\nsiwatch: \(path), line 603: a quote opens and does not close; nothing from this line on can be read\n"
        try await site.folder.expect("import \(path) \(Self.blindly)", 1, end, "\nsiwatch: 1 line left out\n", "600 sign-ins told.")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 600)
    }

    @Test(.daemon) func nothingIsWrittenWhileTheAppIsPaused() async throws {
        let path = try write(Self.header + strangers(20), in: site)
        try await site.folder.expect("pause example", 0)
        let output = try await site.folder.expect("import \(path) --yes", 69)
        #expect(output.last?.hasPrefix("siwatch: the app example is paused") == true, "\(output)")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_log") == 0)
    }

    /// Apple's ids stand in another column. No notification would ever meet the others, and Apple would get the tokens of other providers.
    @Test(.site(onEach: SiteDatabase.allCases)) func aPlatformsOwnIdsAreRefused() async throws {
        let lines = (1...300).map { number in
            let identity = number > 3 ? "apple,\(stranger(number))" : "google,10203040"
            return "\(number),com.example.app,r.\(number),1700000000,\(identity)\n"
        }
        let text = "user_id,client_id,refresh_token,granted_at,provider,provider_id\n" + lines.joined()
        let path = try write(text, in: site)
        let words = """
            siwatch: 300 of 300 lines (100 %) are not of Apple's users, and are bad ones: in line 2 provider is "google", and Apple's look \
            like 001234.0123456789abcdef0123456789abcdef.0815. Is the column provider_id meant? Name it user_id. --any-id takes these \
            lines too.
            """
        let provider = "\nsiwatch: line 2: provider is not Apple\n"
        try await site.folder.expect("import \(path) \(Self.blindly) --json", 64, "\n\(words)\n", provider)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 0)

        // With the right column, the lines of the other provider are left out.
        let renamed = try write(text.replacing("user_id,", with: "id,").replacing("provider_id", with: "sub"), in: site)
        try await site.folder.expect("import \(renamed) \(Self.blindly)", 1, "\nsiwatch: line 4: provider is not Apple\n")
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 297)

        try await site.folder.expect("import \(write(text, in: site)) \(Self.blindly) --any-id", 0)
        #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue") == 597)
    }

    /// Told by SQL, as over HTTP, they are taken, and somebody hears of it.
    @Test(.daemon(onEach: SiteDatabase.allCases)) func idsThatABackendTellsAndAreNotApplesAreAFinding() async throws {
        func finding() async throws -> StatusDocument.Finding? {
            let text = try await site.folder.siwatch("status", "--json").output.joined()
            return try StatusDocument(text).findings.first { $0.sentence.contains("look like Apple's") }
        }
        try await site.settle(try await site.apple.signIn(3))
        #expect(try await finding()?.sentence == nil)
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

/// Lines of an import that tell sign-ins.
func linesTelling(_ signIns: [SignIn], end: String = "\n") -> String {
    signIns.map { "\($0.userID),\($0.clientID),\($0.refreshToken ?? ""),\($0.grantedAt.milliseconds)\(end)" }.joined()
}

/// Lines with tokens that Apple never issued.
func strangers(_ count: Int) -> String { (1...count).map { "\(stranger($0)),com.example.app,r.never.\($0),1700000000\n" }.joined() }
