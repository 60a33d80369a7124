// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import siwatch

/// `siwatch report` names nobody and nothing, whatever stands in the tables and in the configuration.
@Suite(.timeLimit(.minutes(10))) struct ReportTests {
    private static let tables = ["refresh": "interval = \"1s\"", "operations": "socket = \"siwatch.sock\""]

    @Test(.site(onEach: SiteDatabase.allCases, tables)) func noStringThatWasPlantedInATableStandsInIt() async throws {
        let people = try await site.apple.signIn(4)
        let names = people.flatMap { [$0.userID, $0.email, $0.refreshToken].compactMap(\.self) }
        let canary = "000000.00112233445566778899aabbccddeeff.0000"
        try site.folder.edit("name = \"example\"", "name = \"example\"\ncanaries = [\"\(canary)\"]")
        let config = try Configuration(contentsOf: site.folder.configurationPath)
        let named = config.apps.flatMap { $0.clientIDs + [$0.teamID] + $0.keys.map(\.id) }
        let hidden = names + named + [canary, site.folder.url.path, "planted"]
        func report(_ texts: String...) async throws {
            let (status, output) = try await site.folder.siwatch("report")
            let text = output.joined(separator: "\n")
            #expect(status == 0 && text.hasPrefix("siwatch \(Version.current)\n"), "\(text)")
            for word in texts { #expect(text.contains(word), "\(word): \(text)") }
            for name in hidden { #expect(!text.contains(name), "\(name): \(text)") }
        }
        let figures = "  refresh.interval = 1.0 seconds\n"
        try await site.daemon { daemon in
            try await site.settle(people)
            try await site.tell(site.apple.notify(RevokeConsent(), users: [people[0].userID]))
            try await site.backend.insert(notifications: [#"{"payload":"planted \#(people[1].userID)"}"#])
            try await site.backend.insert(revocationsOf: [people[2].userID, "planted"], at: SimulatedApple.clientIDs[0])
            let insertion = "INSERT INTO grant_queue (client_id, user_id) VALUES ('plantedclient', 'planted')"
            try await site.backend.execute(insertion)
            try await site.backend.until(["notification_log": 1, "notification_quarantine": 1, "revocation_log": 2])
            try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE waits_since IS NOT NULL", is: 1)
            #expect(await daemon.line(containing: "\"event\":\"unknown_clients\"") != nil)
            try await report(" warning unknown_clients: ", figures)
        }
        try await report(figures, "\n  queues[0].depth ", "down: ")
        #expect(try await plant() > 20)
        try await report(figures)
    }

    /// Appends a word to every text of every table whose constraints let it.
    ///
    /// - Returns: how many columns took it.
    private func plant() async throws -> Int {
        let ofFile = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND c.type = 'TEXT'"
        let ofServer =
            "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE data_type = 'text' AND table_schema"
        let columns = site.schema.map { "\(ofServer) = '\($0.name)'" } ?? ofFile
        var planted = 0
        for row in try await site.backend.rows(columns) {
            let (table, column): (String, String) = (row[0], row[1])
            do {
                try await site.backend.execute("UPDATE \(table) SET \(column) = \(column) || 'planted'")
                planted += 1
            } catch {
                // A constraint or a view refuses it.
            }
        }
        return planted
    }

    @Test func noTextOfTheConfigurationStandsInIt() throws {
        let configuration = try Configuration(
            parsing: """
                [database]
                url = "postgres://plantedrole@planted.example:5432/planted"
                schema = "planted"
                password_file = "planted.password"
                [[app]]
                name = "plantedapp"
                team_id = "PLANTED123"
                client_ids = ["planted.client", "com.planted.web"]
                canaries = ["000001.planted.0001"]
                [[app.key]]
                id = "PLANTED456"
                file = "planted.p8"
                [encryption]
                key_file = "planted.key"
                [refresh]
                interval = "36h"
                [operations]
                listen = "10.11.12.13:9464"
                allow_remote = true
                socket = "/run/planted/planted.sock"
                [http]
                listen = "/run/planted/door.sock"
                notifications_url = "https://planted.example/apple"
                [[http.client]]
                name = "plantedclient"
                token_files = ["planted.token"]
                may = ["read"]
                [[delivery]]
                name = "planteddelivery"
                url = "https://planted.example/hook?planted"
                secret_files = ["planted.secret"]
                ca_file = "planted.pem"
                [log]
                level = "debug"
                [apple]
                token_endpoint = "https://planted.example/token"
                revocation_endpoint = "https://planted.example/revoke"
                keys_endpoint = "https://planted.example/keys"
                issuers = ["https://planted.example"]
                """,
            from: "/etc/planted/siwatch.toml"
        )
        let lines = configuration.disclosed.map { "\($0.key) = \($0.value)" }
        #expect(lines.contains("refresh.interval = 129600.0 seconds") && lines.contains("log.level = debug"), "\(lines)")
        #expect(lines.contains("breaker.window = 500") && lines.contains("app[0].name = set"), "\(lines)")
        let redaction = Redaction(of: configuration, hiding: ["plantedhost"])
        let told = configuration.values.values.map { redaction.of("\($0) of plantedhost, at \($0): refresh.interval, 0.5 s") }
        for line in lines + told {
            #expect(!["planted", "10.11.12.13"].contains { line.lowercased().contains($0) }, "\(line)")
        }
        #expect(told.allSatisfy { $0.hasSuffix(": refresh.interval, 0.5 s") })
        let sentence = "at 2026-11-21T13:12:34.000Z \"anything\" of someone@example.org, by /etc/x (host.example, 10.0.0.1) and fe80::1."
        #expect(redaction.of(sentence) == "at 2026-11-21T13:12:34.000Z … of …, by … (…, …) and ….")
    }
}
