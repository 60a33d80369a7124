// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Crypto
import DaemonHarness
import Foundation
import GRDB
import Testing

/// Tokens, codes and keys stand in no output and no file, and users only in the database, whatever happens and however much is logged.
@Suite(.timeLimit(.minutes(10))) struct SecretsTests {
    private static let tables = ["refresh": "interval = \"1s\"", "breaker": "settle = \"100ms\"", "log": "level = \"trace\""]
    /// A canary that never signs in.
    private static let stranger = "000000.00112233445566778899aabbccddeeff.0000"

    @Test(.site(onEach: SiteDatabase.allCases, listen: "127.0.0.1:0", tables)) func noSecretAndNoUserStandsOutsideItsPlace() async throws {
        let secrets = try FleetSecrets(of: site)
        let people = try await site.apple.signIn(20)
        let canaries = "canaries = [\"\(people[19].userID)\", \"\(Self.stranger)\"]"
        try site.folder.edit("name = \"example\"", "name = \"example\"\n\(canaries)")
        let backup = site.folder.path("backup")
        var texts: [String: String] = [:]
        let daemon = try await site.daemon { daemon in
            try await Self.signIn(people, to: site)
            try await Self.leave(people, site)
            try await Self.fail(people, site, daemon)
            try await Self.reload(site, daemon, canaries)
            let pages = try await OperationsPages(of: daemon)
            for page in ["metrics", "readyz", "healthz"] { texts[page] = try await pages.get(page) }
            for name in ["cmdline", "environ"] {
                let file = try #require(FileHandle(forReadingAtPath: "/proc/\(daemon.identifier)/\(name)"))
                texts[name] = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
            }
            for command in [["status"], ["status", "--json"], ["breaker"], ["pause", "example"], ["resume", "example"]] {
                texts[command.joined(separator: " ")] = try await Self.run(command, in: site)
            }
            _ = try await site.folder.siwatch("backup", backup)
        }
        texts["the log"] = daemon.output.joined(separator: "\n")
        texts["run --once"] = try await Self.run(["run", "--once"], in: site)

        let users = try await site.apple.send(ListUsers()).users
        let names = users.map(\.userID) + users.compactMap(\.email)
        for (place, text) in texts {
            // The status names the canaries that siwatch cannot ask about, because the configuration does.
            let names = place.hasPrefix("status") ? names : names + [Self.stranger]
            let leaks = text.split(separator: "\n").filter { line in secrets.areIn(String(line)) || names.contains(where: line.contains) }
            #expect(leaks == [], "\(place)")
        }
        // An operator who asks for a user gets the user, and no token.
        for command in [
            ["doctor", "--before-start"], ["rejected", "example"], ["explain", people[0].userID], ["export", people[0].userID],
            ["explain", people[12].userID, "--receipts"], ["quarantine", "list"], ["quarantine", "list", "1"],
        ] {
            let text = try await Self.run(command, in: site)
            #expect(!text.isEmpty && !Data(text.utf8).holdsSimulatedToken && !secrets.hasKey(text), "\(command): \(text)")
        }
        #expect(try site.folder.filesWithTokens() == [])
        let places = try site.folder.files(with: names).filter { !$0.value.isEmpty }.map(\.key)
        // The canaries stand in the configuration.
        #expect(Set(places).isSubset(of: ["siwatch.sqlite", "siwatch.toml", "backup"]), "\(places)")
        if let schema = site.schema { #expect(try await !Self.contents(of: schema.name, site).holdsSimulatedToken) }

        // All that could have told has happened.
        let log = try #require(texts["the log"])
        for event in [
            "library", "credential_changed", "code_rejected", "token_undelivered", "answer_ambiguous", "answer_unavailable",
            "throttled", "revocation_rejected", "settlement_refused", "unknown_clients", "canary_unknown", "app_paused",
            "reload_failed", "reloaded",
            // On a server the command may be quicker than the daemon.
            site.schema == nil ? "operator_request_answered" : "ready",
        ] { #expect(log.contains("\"event\":\"\(event)\""), "\(event)") }
    }

    // MARK: What happens

    private static func signIn(_ people: [SignIn], to site: Site) async throws {
        try await site.settle(people)
        let key = try #require(try await site.folder.siwatch("secret", "public-key").output.first)
        for (index, signIn) in try await site.apple.signIn(2).enumerated() {
            var sealed = try seal(signIn, to: key)
            if index == 1 { sealed[sealed.count - 1] ^= 1 }
            let insertion = "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, ?, ?)"
            try await site.backend.execute(insertion, [signIn.clientID, signIn.userID, sealed, signIn.grantedAt.milliseconds])
        }
        let signIns = try await site.apple.signInByCode(10, nonce: "one")
        var codes = signIns.compactMap(CodeRow.init)
        for index in codes.indices { codes[index].grantedAt = nil }
        // Six bring a sign-in, so siwatch revokes the token of the next, which brings none.
        codes[6].nonce = "another"
        codes[7].userID = people[0].userID
        codes[8].code = "c00112233445566778899aabbccddeeff.0.rubbish"
        try await site.apple.script(refusal("invalid_grant", of: signIns[9]))
        for (index, code) in codes.enumerated() {
            try await site.backend.insert(codes: [code])
            try await site.backend.until("SELECT COUNT(*) FROM grant_log", is: 23 + index)
        }
        // Columns that were mixed up. The rows wait.
        for mistake in [people[1].userID, try #require(people[1].email)] {
            try await site.backend.execute("INSERT INTO grant_queue (client_id, user_id) VALUES (?, 'nobody')", [mistake])
        }
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 27)
    }

    /// By notifications, good and bad, without one, and by the app.
    private static func leave(_ people: [SignIn], _ site: Site) async throws {
        let users = people.map(\.userID)
        let good =
            try await site.apple.notify(RevokeConsent(), users: Array(users[0..<2]))
            + site.apple.notify(DeleteAccounts(), users: Array(users[2..<4]))
            + site.apple.notify(SwitchForwarding(on: false), users: Array(users[4..<6]))
        let bad =
            try await site.apple.notify(FalseEvent(.consentRevoked), users: [users[6]], Emission { $0.signature = .forged })
            + site.apple.notify(FalseEvent(.consentRevoked), users: [users[6]], Emission { $0.signature = .unknownKey })
            + site.apple.notify(FalseEvent(.consentRevoked), users: [users[6]], Emission { $0.audience = .exactly(users[6]) })
        let rubbish = [#"{"payload":"\#(users[6])"}"#, "\(users[6]) \(people[6].email ?? "")", #"{"\#(users[6])":"\#(users[6])"}"#]
        try await site.backend.insert(notifications: (good + good + bad).map(\.body) + rubbish)
        // The notification about this user is lost.
        _ = try await site.apple.notify(RevokeConsent(), users: [users[7]])
        try await site.backend.insert(revocationsOf: Array(users[12..<14]) + ["nobody"], at: SimulatedApple.clientIDs[0])
        try await site.backend.insert(revocationsOf: [users[14]], at: "com.example.nobody")
        try await site.backend.until(["notification_log": good.count * 2, "revocation_log": 4])
        try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE reason = 'token_rejected'", is: 1)
    }

    /// Apple refuses in words that repeat what it was asked, or answers rubbish. The database refuses a row.
    private static func fail(_ people: [SignIn], _ site: Site, _ daemon: ChildProcess) async throws {
        try await site.apple.script(refusal("invalid_request", of: people[8]))
        try await site.apple.script(refusal("server_error", of: people[9]))
        try await site.apple.script(refusal("\(people[10].refreshToken ?? "") \(people[10].userID)", of: people[10]))
        try await site.apple.script(.answer(500, body: words(of: people[11]), count: 2).at(.token).of(people[11].userID))
        try await site.apple.script(.answer(200, body: words(of: people[15]), count: 2).at(.token).of(people[15].userID))
        // Another user's token.
        let other = try await site.apple.signIn(1)[0]
        let withToken = "INSERT INTO grant_queue (client_id, user_id, refresh_token) VALUES (?, ?, ?)"
        try await site.backend.execute(withToken, [other.clientID, people[17].userID, other.refreshToken])
        let refused = people[18]
        let isServer = site.schema != nil
        let trigger = "CREATE TRIGGER planted BEFORE INSERT ON grant_log WHEN NEW.user_id = '\(refused.userID)'"
        try await site.backend.execute(
            isServer
                ? "ALTER TABLE grant_log ADD CONSTRAINT planted CHECK (user_id <> '\(refused.userID)') NOT VALID"
                : "\(trigger) BEGIN SELECT RAISE(ABORT, 'planted'); END"
        )
        let withAddress = "INSERT INTO grant_queue (client_id, user_id, email) VALUES (?, ?, ?)"
        try await site.backend.execute(withAddress, [refused.clientID, refused.userID, refused.email])
        for event in ["answer_ambiguous", "answer_unavailable", "settlement_refused"] {
            #expect(await daemon.line(containing: "\"event\":\"\(event)\"") != nil)
        }
        try await site.backend.execute(isServer ? "ALTER TABLE grant_log DROP CONSTRAINT planted" : "DROP TRIGGER planted")
        // Last, because siwatch asks more slowly after it.
        try await site.apple.script(.answer(429, body: words(of: people[16]), count: 2).at(.token).of(people[16].userID))
        #expect(await daemon.line(containing: "\"event\":\"throttled\"") != nil)
        try await site.apple.script(refusal("invalid_client", of: people[5]))
        #expect(await daemon.line(containing: "\"event\":\"app_paused\"") != nil)
        try await site.apple.send(ClearFaults())
    }

    /// A reload of a configuration that names a canary twice, and of the one before.
    private static func reload(_ site: Site, _ daemon: ChildProcess, _ canaries: String) async throws {
        let twice = canaries.replacing("]", with: ", \"\(stranger)\"]")
        try site.folder.edit(canaries, twice)
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: "\"event\":\"reload_failed\"") != nil)
        try site.folder.edit(twice, canaries)
        daemon.signal(SIGHUP)
        #expect(await daemon.line(containing: "\"event\":\"reloaded\"") != nil)
    }

    // MARK: Its pieces

    private static func words(of signIn: SignIn) -> String {
        [signIn.refreshToken, signIn.code, signIn.userID, signIn.email].compactMap(\.self).joined(separator: " ")
    }

    private static func refusal(_ error: String, of signIn: SignIn) -> Fault {
        let body = #"{"error":"\#(error)","error_description":"no code expired: \#(words(of: signIn))"}"#
        return Fault.answer(400, body: body).at(.token).of(signIn.userID)
    }

    /// - Parameter key: as `siwatch secret public-key` prints it.
    private static func seal(_ signIn: SignIn, to key: String) throws -> Data {
        let raw = try #require(key.split(separator: ":").last.flatMap { Data(base64Encoded: String($0)) })
        var sender = try HPKE.Sender(
            recipientKey: Curve25519.KeyAgreement.PublicKey(rawRepresentation: raw),
            ciphersuite: .Curve25519_SHA256_ChachaPoly,
            info: Data("siwatch-token-sealed-1".utf8)
        )
        let user = Data("\(signIn.clientID)\0\(signIn.userID)\0\(signIn.grantedAt.milliseconds)".utf8)
        let sealed = try sender.seal(Data(try #require(signIn.refreshToken).utf8), authenticating: user)
        let time = withUnsafeBytes(of: signIn.grantedAt.milliseconds.bigEndian) { Data($0) }
        let header = Data([1]) + SHA256.hash(data: raw).prefix(4) + time
        return header + sender.encapsulatedKey + sealed
    }

    private static func run(_ command: [String], in site: Site) async throws -> String {
        try await site.folder.siwatch(command).output.joined(separator: "\n")
    }

    /// All rows of all tables of a schema. Bytes that are letters show as letters.
    private static func contents(of schema: String, _ site: Site) async throws -> Data {
        try await site.backend.execute("SET bytea_output = 'escape'")
        let tables = try await site.backend.rows("SELECT tablename FROM pg_tables WHERE schemaname = '\(schema)'").map { $0[0] as String }
        var rows: [String] = []
        for table in tables { rows += try await site.backend.rows("SELECT t::text FROM \(table) t").map { $0[0] as String } }
        try #require(tables.count > 10 && rows.count > 50)
        return Data(rows.joined(separator: "\n").utf8)
    }
}
