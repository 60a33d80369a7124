// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import Testing

/// The log of a server whose administrator lets it quote every statement with every value.
@Suite(.timeLimit(.minutes(10))) struct ServerLogTests {
    @Test func itHoldsTheTokensThatBackendsInsertAndNoneThatSiwatchKeeps() async throws {
        let settings = ["log_min_messages=log", "log_statement=all", "log_parameter_max_length=-1", "log_line_prefix=%a|"]
        let server = try PostgresServer(settings: settings)
        defer { server.stop() }
        try await Site.with(on: .server(server), ["refresh": "interval = \"1s\""]) { site in
            let people = try await site.apple.signIn(4)
            let codes = try await site.apple.signInByCode(2)
            try await site.daemon { _ in
                try await site.settle(people)
                try await site.tell(codesOf: codes)
                try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 6)
                try await site.tell(leaving: people[..<2].map(\.userID), at: SimulatedApple.clientIDs[0])
                try await site.backend.until("SELECT COUNT(*) FROM revocation_log", is: 2)
            }
            let (own, backends) = Self.parts(of: server.log)
            #expect(backends.holdsSimulatedToken && own.contains(people[0].userID), "the server does not log values")
            #expect(!Data(own.utf8).holdsSimulatedToken)
            #expect(!(try FleetSecrets(of: site)).hasKey(own))
        }
    }

    /// What the sessions of siwatch have caused, and what all others have.
    private static func parts(of log: String) -> (own: String, backends: Data) {
        var (own, backends, isOwn) = ("", "", false)
        for line in log.split(separator: "\n") {
            // A line of an entry that is not its first begins with a tab.
            if !line.hasPrefix("\t") { isOwn = line.hasPrefix("siwatch|") }
            if isOwn { own += line + "\n" } else { backends += line + "\n" }
        }
        return (own, Data(backends.utf8))
    }
}
