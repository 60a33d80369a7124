// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialSealing
import DaemonHarness
import Foundation
import Testing

/// The housekeeping seals the tables anew.
@Suite(.timeLimit(.minutes(10))) struct ResealingTests {
    private var keyIDs: [String] {
        get throws { try KeyRing(parsing: String(contentsOfFile: site.folder.path("siwatch.key"), encoding: .utf8)).keyIDs }
    }

    @Test(.site(onEach: SiteDatabase.allCases, ["refresh": "interval = \"1s\""]))
    func theOldKeyGoesOnceNothingStandsUnderIt() async throws {
        let old = try keyIDs[0]
        func counter(_ name: String) -> String { "SELECT value FROM counter WHERE name = '\(name).\(old)'" }
        try await site.daemon { _ in try await site.settle(try await site.apple.signIn(5)) }
        #expect(try await site.backend.int(counter("seals")) >= 5, "the stop has written it down")
        try await site.folder.expect("secret rotate", 0)
        let new = try keyIDs[0]
        try await site.daemon { _ in
            try await site.backend.until("SELECT value FROM counter WHERE name = 'sealed.\(new)'", is: 6)
            #expect(try await site.backend.int(counter("sealed")) == 0)
        }
        try await site.folder.expect("status", says: "sealing key \(new)", "6 values under it")
        try await site.folder.expect("secret retire \(old)", 0, "no longer holds the key \(old)")
        try await site.daemon { daemon in
            try await site.settle(try await site.apple.signIn(1))
            try await site.backend.until("SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", is: 6)
            #expect(!daemon.output.contains { $0.contains("token_unreadable") })
        }
    }
}
