// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

struct SecretsTests {
    @Test func noTokenAndNoUserStandsInClearOutsideItsPlace() async throws {
        try await Site.with(listen: "127.0.0.1:0", ["refresh": "interval = \"1s\"", "log": "level = \"trace\""]) { site in
            let signIns = try await site.apple.signIn(20)
            let daemon = try await site.daemon { _ in
                try await site.settle(signIns)
                try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 20)
                try await site.backend.insert(
                    notifications: try await site.apple.notify("consent-revocations", users: signIns[0..<5].map(\.user_id))
                )
                try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 5)
            }
            let log = daemon.output.joined(separator: "\n")
            #expect(log.contains("consent_revoked"))
            let files = try site.bytes()
            #expect(files.contains { $0.name == "siwatch.sqlite" })
            for signIn in signIns {
                let token = try #require(signIn.refresh_token)
                for file in files { #expect(file.bytes.range(of: Data(token.utf8)) == nil, "a token in \(file.name)") }
                #expect(!log.contains(token))
                #expect(!log.contains(signIn.user_id))
                #expect(!log.contains(try #require(signIn.email)))
            }
        }
    }
}
