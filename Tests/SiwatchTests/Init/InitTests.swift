// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Crypto
import DaemonHarness
import Foundation
import PostgresStore
import Testing

@testable import siwatch

/// `siwatch init`, as a newcomer runs it. Apple is not asked here: `--offline`.
struct InitTests {
    /// An empty folder, with Apple's key beside it as a browser has left it.
    private struct Newcomer {
        let folder: WatchedFolder
        let pem = P256.Signing.PrivateKey().pemRepresentation
        var configuration: URL { folder.url.appending(path: "etc/siwatch.toml") }
        var database: URL { folder.url.appending(path: "data/siwatch.sqlite") }
        var key: URL { folder.url.appending(path: "AuthKey_ABC123DEFG.p8") }

        init() throws {
            folder = try WatchedFolder()
            try folder.write(pem, to: "AuthKey_ABC123DEFG.p8", mode: 0o644)
        }

        func run(_ more: [String]) async throws -> (status: Int32, output: [String]) {
            try await CommandCall.siwatch(["init", "--config", configuration.path, "--service-user", Account.user] + more)
        }

        @discardableResult
        func expect(
            _ more: [String],
            _ status: Int32,
            _ texts: String...,
            not absent: String...,
            at location: SourceLocation = #_sourceLocation
        ) async throws -> [String] {
            let said = try await run(more)
            examine(said, "init", status, texts, not: absent, at: location)
            return said.output
        }

        var answers: [String] {
            [
                "--yes", "--offline", "--key", key.path, "--team-id", "A1B2C3D4E5", "--client-id", "com.example.app", "--client-id",
                "com.example.web", "--database", database.path,
            ]
        }

        var written: Configuration {
            get throws { try Configuration(parsing: String(contentsOf: configuration, encoding: .utf8), from: configuration.path) }
        }

        var files: Set<String> { get throws { Set(try FileManager.default.subpathsOfDirectory(atPath: folder.url.path)) } }
        func mode(_ path: String) throws -> Int? { try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int }
    }

    @Test func answersBecomeAConfigurationAKeyAndADatabase() async throws {
        let newcomer = try Newcomer()
        let url = "https://example.com/apple/notifications"
        let (status, output) = try await newcomer.run(newcomer.answers + ["--backend-user", Account.user, "--notifications-url", url])
        try #require(status == 0, "\(output)")
        let configuration = try newcomer.written
        #expect(configuration.http.notificationsURL?.absoluteString == url)
        let app = configuration.apps[0]
        #expect(configuration.database.path == newcomer.database.path && configuration.apps.count == 1)
        #expect(app.name == "example" && app.teamID == "A1B2C3D4E5" && app.clientIDs == ["com.example.app", "com.example.web"])
        #expect(app.keys[0].id == "ABC123DEFG")
        let copy = newcomer.folder.path("etc/AuthKey_ABC123DEFG.p8")
        #expect(try String(contentsOfFile: copy, encoding: .utf8) == newcomer.pem)
        let token = newcomer.folder.path("etc/backend.token")
        #expect(configuration.http.clients.map(\.tokenFiles) == [[token]] && configuration.deliveries.isEmpty)
        for path in [copy, token, newcomer.configuration.path] { #expect(try newcomer.mode(path) == 0o600) }
        #expect(try newcomer.mode(newcomer.folder.path("data")) == 0o2770)
        #expect(output.contains { $0.contains("siwatch.key to a safe place now") }, "\(output)")
        #expect(output.contains { $0.contains("Only siwatch reads these: sudo install -o USER") }, "\(output)")
        #expect(!output.joined().contains("siwatch migrate creates it"), "\(output)")
        let backend = try Backend(databasePath: newcomer.database.path)
        for queue in ["notification_queue", "grant_queue", "revocation_queue"] {
            #expect(try await backend.int("SELECT COUNT(*) FROM \(queue)") == 0, "the try of an insert leaves nothing in \(queue)")
        }
        try backend.close()
    }

    @Test func aSecondRunChangesNothing() async throws {
        let newcomer = try Newcomer()
        try #require(try await newcomer.run(newcomer.answers).status == 0)
        let before = try Data(contentsOf: newcomer.configuration)
        let again = ["--yes", "--offline"]
        try await newcomer.expect(again, 0)
        try await newcomer.expect(newcomer.answers + ["--http", "127.0.0.1:9465", "--webhook", "none"], 0)
        let other = try await newcomer.expect(again + ["--team-id", "ZZZZZZZZZZ"], 1)
        #expect(other.contains { $0.contains("--team-id: ") && $0.contains("says something else") }, "\(other)")
        // The query may hold a token.
        try await newcomer.expect(again + ["--webhook", "https://example.com/siwatch?token=abc"], 1, "--webhook: ", not: "abc")
        #expect(try Data(contentsOf: newcomer.configuration) == before)
    }

    /// The file was edited since, and Apple refuses what stands there now.
    @Test func aSecondRunStopsWhereAppleRefusesTheFile() async throws {
        let newcomer = try Newcomer()
        try #require(try await newcomer.run(newcomer.answers).status == 0)
        let stranger = ClientKey.generate(id: "ABC123DEFG").registered
        let group = AppGroup(teamID: "A1B2C3D4E5", clientIDs: ["com.example.app", "com.example.web"], keys: [stranger])
        var simulated = SimulatorConfiguration(groups: [group])
        simulated.signingKeyCount = 1
        let (_, url, _) = try await AppleSimulator.start(simulated)
        let apple = "\n[apple]\ntoken_endpoint = \"\(url)/auth/token\"\nkeys_endpoint = \"\(url)/auth/keys\"\n"
        let edited = try Data(contentsOf: newcomer.configuration) + Data(apple.utf8)
        try edited.write(to: newcomer.configuration)
        try await newcomer.expect(["--yes"], 78, "Apple refuses 2 clients of this configuration", not: "starts it", "siwatch works")
        #expect(try Data(contentsOf: newcomer.configuration) == edited, "it is a person's")
    }

    /// The simulator's team, clients and key are proposed, and it is asked about them.
    @Test func aSimulatedAppleIsFound() async throws {
        let newcomer = try Newcomer()
        let key = try ClientKey(id: "ABC123DEFG", pem: newcomer.pem)
        let group = AppGroup(teamID: "A1B2C3D4E5", clientIDs: ["com.example.app", "com.example.web"], keys: [key.registered])
        var simulated = SimulatorConfiguration(groups: [group])
        simulated.signingKeyCount = 1
        let (_, url, _) = try await AppleSimulator.start(simulated)
        let options = ["--yes", "--simulator", "\(url)/", "--key", newcomer.key.path, "--database", newcomer.database.path]
        try await newcomer.expect(options, 0)
        let configuration = try newcomer.written
        #expect(configuration.apple.tokenEndpoint.absoluteString == "\(url)/auth/token")
        #expect(configuration.apple.revocationEndpoint.absoluteString == "\(url)/auth/revoke")
        #expect(configuration.apps[0].name == "example" && configuration.apps[0].clientIDs == group.clientIDs)
        try await newcomer.expect(options, 0)
        try await newcomer.expect(["--yes", "--simulator", "http://127.0.0.1:1"], 1, "--simulator: ", "says something else")
    }

    @Test func missingAnswersAreNamedAndADryRunPrintsTheConfigurationAndNothingIsWritten() async throws {
        let newcomer = try Newcomer()
        let before = try newcomer.files
        try await newcomer.expect(["--yes", "--offline"], 64, "--key, --team-id, --client-id are missing")
        try await newcomer.expect(newcomer.answers + ["--dry-run"], 0, "\nteam_id = \"A1B2C3D4E5\"\n")
        #expect(try newcomer.files == before)
    }

    @Test(arguments: [
        ("--team-id", "a1b2c3", "must be the 10 capital letters and digits"),
        ("--client-id", "A1B2C3D4E5.com.example.app", "without the team"), ("--client-id", "example", "is no App ID or Services ID"),
        ("--database", "postgresql://siwatch:secret@localhost/app", "--database"),
        ("--webhook", "https://example.com:70000/", "with a port up to 65535"),
        ("--webhook", "https://169.254.169.254/", "where clouds hand out credentials"),
        ("--backend-user", "nobody-has-this-name", "this host knows no user"), ("--key", "certificate.p8", "is not a private key"),
        ("--key", "rsa.p8", "is not a private key"), ("--key", "nothing.p8", "cannot be read: No such file or directory"),
    ])
    func aWrongAnswerIsSaidAndNothingIsWritten(option: String, value: String, sentence: String) async throws {
        let newcomer = try Newcomer()
        let body = String(repeating: "QUJD", count: 40)
        for (name, kind) in [("certificate.p8", "CERTIFICATE"), ("rsa.p8", "RSA PRIVATE KEY")] {
            try newcomer.folder.write("-----BEGIN \(kind)-----\n\(body)\n-----END \(kind)-----\n", to: name)
        }
        let before = try newcomer.files
        var answers = newcomer.answers
        let given = option == "--key" ? newcomer.folder.path(value) : value
        if let index = answers.firstIndex(of: option) { answers[index + 1] = given } else { answers += [option, given] }
        try await newcomer.expect(answers, 64, sentence, not: "secret")
        #expect(try newcomer.files == before)
    }

    /// After the secret and before the configuration.
    @Test func aRunThatWasCutShortGoesOn() async throws {
        let newcomer = try Newcomer()
        let (folder, token) = (newcomer.folder, "\(NewSecret.token.make())\n")
        try FileManager.default.createDirectory(atPath: folder.path("etc"), withIntermediateDirectories: false)
        try folder.write(token, to: "etc/backend.token")
        try await newcomer.expect(newcomer.answers, 0)
        #expect(try String(contentsOfFile: folder.path("etc/backend.token"), encoding: .utf8) == token)
    }

    @Test func anotherKeyIsNotOverwritten() async throws {
        let newcomer = try Newcomer()
        let (folder, name) = (newcomer.folder, "etc/AuthKey_ABC123DEFG.p8")
        try FileManager.default.createDirectory(atPath: folder.path("etc"), withIntermediateDirectories: false)
        let other = P256.Signing.PrivateKey().pemRepresentation
        try folder.write(other, to: name)
        let before = try newcomer.files
        try await newcomer.expect(newcomer.answers, 1, "is there already, with something else in it")
        #expect(try newcomer.files == before)
        #expect(try String(contentsOfFile: folder.path(name), encoding: .utf8) == other)
    }

    /// On a terminal, with three answers that are none, the proposals taken by an empty line, and an end in the middle.
    @Test(arguments: [true, false]) func aPersonIsAskedAndHalfAnAnswerLeavesNothing(isWhole: Bool) async throws {
        let newcomer = try Newcomer()
        let before = try newcomer.files
        let script = """
            import os, pty, sys
            words, answers = sys.argv[2:], sys.argv[1].split("|")
            child, terminal = pty.fork()
            if child == 0:
                os.execvp(words[0], words)
            text = ""
            while True:
                try:
                    piece = os.read(terminal, 4096).decode()
                except OSError:
                    break
                if not piece:
                    break
                text += piece
                sys.stdout.write(piece)
                while answers and text.rstrip(" ").endswith(":"):
                    text = ""
                    answer = answers.pop(0)
                    os.write(terminal, b"\\x04" if answer == "END" else answer.encode() + b"\\n")
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """
        let answers = [
            newcomer.key.path, "short", "A1B2C3D4E5", "example", "com.example.app, com.example.web", "com.example.third", "",
            newcomer.database.path, "none", "https://example.com/siwatch", "",
        ]
        let typed = (isWhole ? answers : answers.prefix(3) + ["END"]).joined(separator: "|")
        let options = ["--offline", "--config", newcomer.configuration.path, "--service-user", Account.user]
        let process = try ChildProcess.found(["python3", "-c", script, typed, ChildProcess.program("siwatch").path, "init"] + options)
        let status = await process.exit()
        if isWhole {
            #expect(status == 0, "\(process.output)")
            let configuration = try newcomer.written
            #expect(configuration.apps[0].clientIDs == ["com.example.app", "com.example.web"])
            #expect(configuration.http.listen == nil)
            #expect(configuration.deliveries.map(\.url.absoluteString) == ["https://example.com/siwatch"])
        } else {
            #expect(status == 64 && process.output.joined().contains("nothing was changed"), "\(process.output)")
            #expect(try newcomer.files == before)
        }
    }

    @Test func theRolesAreThoseOfThePage() throws {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/postgresql.md"), encoding: .utf8)
        let lines = page.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        for line in ServerRoles.script.split(separator: "\n") { #expect(lines.contains(String(line)), "\(line)") }
    }
}
