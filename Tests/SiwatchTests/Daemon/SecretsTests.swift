// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
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
                try await site.tell(site.apple.notify(RevokeConsent(), users: signIns[0..<5].map(\.userID)))
                try await site.backend.until("SELECT COUNT(*) FROM notification_log", is: 5)
            }
            let log = daemon.output.joined(separator: "\n")
            #expect(log.contains("consent_revoked"))
            let files = try site.folder.files(with: signIns.compactMap(\.refreshToken))
            #expect(
                files.keys.contains("siwatch.sqlite") && files.values.allSatisfy(\.isEmpty),
                "\(files.filter { !$0.value.isEmpty }.keys)"
            )
            for signIn in signIns {
                let token = try #require(signIn.refreshToken)
                #expect(!log.contains(token))
                #expect(!log.contains(signIn.userID))
                #expect(!log.contains(try #require(signIn.email)))
            }
        }
    }
}
