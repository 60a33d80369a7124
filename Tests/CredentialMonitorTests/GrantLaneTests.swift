// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

struct GrantLaneTests {
    @Test func aTokenStandsNowhereInClear() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann", token: "r-very-secret")
            #expect(try await monitor.state(of: "ann") == "authorized granted")
            let dump = Dump()
            try monitor.store.writer.dumpContent(to: dump)
            #expect(dump.text.contains("ann"))
            #expect(!dump.text.contains("very-secret"))
        }
    }

    private func deliver(_ sealed: [UInt8], of user: String, to monitor: Monitor) async throws {
        let hex = sealed.map { String(format: "%02x", $0) }.joined()
        try await monitor.execute(
            "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, x'\(hex)', ?)",
            [Monitor.clients[0], user, monitor.clock.now.milliseconds]
        )
        try await monitor.settle(monitor.grantHandler)
    }

    @Test func aTokenThatTheBackendSealedIsOpenedAndSealedAnew() async throws {
        try await Monitor.with { monitor in
            let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
            try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann), of: "ann", to: monitor)
            #expect(try await monitor.state(of: "ann") == "authorized granted")
            monitor.clock.advance(by: .seconds(2 * 86_400))
            try await monitor.settle(monitor.refreshHandler)
            #expect(monitor.endpoint.calls.map(\.token.reveal) == ["token-of-ann"])
        }
    }

    @Test(arguments: [("bob", "key", "unreadable_token"), ("ann", "old", "unknown_token_key")])
    func aSignInWhoseSealedTokenDoesNotOpenCountsWithoutIt(user: String, keyID: String, reason: String) async throws {
        try await Monitor.with { monitor in
            let ann = CredentialID(clientID: Monitor.clients[0], userID: "ann")
            try await deliver(PlainSealer().deliver(Secret("token-of-ann"), for: ann, keyID: keyID), of: user, to: monitor)
            #expect(try await monitor.state(of: user) == "authorized granted")
            #expect(try await monitor.value("SELECT outcome || ' ' || reason FROM grant_log") == "rejected \(reason)")
            #expect(try await monitor.count("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 0)
        }
    }

    @Test func aGrantOfAnUnknownClientWaits() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann", client: "com.example.forgotten")
            #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE attempts = 0") == 1)
            monitor.clock.advance(by: .seconds(6 * 3600))
            #expect(try await monitor.loop(monitor.grantHandler).round() == 1, "looked at again")
        }
    }

    @Test func aGrantFromTheFutureWaitsForItsTime() async throws {
        try await Monitor.with { monitor in
            try await monitor.signIn("ann", at: monitor.clock.now.advanced(by: .seconds(301)))
            try await monitor.signIn("bob", at: monitor.clock.now.advanced(by: .seconds(299)))
            #expect(try await monitor.state(of: "ann") == nil)
            #expect(try await monitor.state(of: "bob") == "authorized granted")
            #expect(try await monitor.count("SELECT COUNT(*) FROM grant_queue WHERE refresh_token = 'token-of-ann'") == 1)
            monitor.clock.advance(by: .seconds(1))
            try await monitor.settle(monitor.grantHandler)
            #expect(try await monitor.state(of: "ann") == "authorized granted")
        }
    }

    @Test func aGrantThatKeepsKillingTheProcessIsPutAway() async throws {
        try await Monitor.with { monitor in
            try await monitor.grant("ann")
            try await monitor.execute("UPDATE grant_queue SET attempts = 5")
            try await monitor.settle(monitor.grantHandler)
            #expect(try await monitor.value("SELECT outcome || ' ' || reason FROM grant_log") == "rejected poison")
        }
    }

    @Test func bytesThatAreNoTextAreRejectedAndLogged() async throws {
        try await Monitor.with { monitor in
            try await monitor.execute(
                "INSERT INTO grant_queue (client_id, user_id) VALUES ('com.example.app', CAST(X'C328' AS TEXT))"
            )
            monitor.clock.set(to: Timestamp(milliseconds: 4_000_000_000_000))
            try await monitor.settle(monitor.grantHandler)
            #expect(
                try await monitor.value("SELECT outcome || ' ' || reason || ' ' || hex(user_id) FROM grant_log")
                    == "rejected malformed C328"
            )
        }
    }
}

private final class Dump: TextOutputStream {
    private(set) var text = ""

    func write(_ string: String) {
        text += string
    }
}
