// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10))) struct SystemdTests {
    @Test(.site(listen: "127.0.0.1:0")) func systemdHearsOfTheLifeOfADaemonWhosePagesAreServed() async throws {
        try await site.backend.insert(try await site.apple.signIn(5))
        try await site.folder.expect("run --once", 0)
        let folder = try TemporaryFolder(in: URL(filePath: "/tmp"))
        let listener = try DatagramSocket(folder.path("notify"))
        try await site.daemon(environment: ["NOTIFY_SOCKET": folder.path("notify"), "WATCHDOG_USEC": "300000"]) { daemon in
            try await listener.expect("READY=1")
            for _ in 1...3 { try await listener.expect("WATCHDOG=1") }
            let queues = "waiting: 0 notification, 0 sign-in, 0 revocation; 0 checks overdue"
            try await listener.expect("STATUS=5 authorized, 0 revoked, 0 notFound; \(queues)")

            try await site.settle(try await site.apple.signIn(7))
            let pages = try await OperationsPages(of: daemon)
            for page in ["readyz", "healthz"] { try await pages.expect(page, is: "ok\n") }
            // A settlement shows in the tables before it shows in the counters.
            let authorized = #"siwatch_credentials{app="example",state="authorized"} 12"#
            try await pages.expect("metrics", shows: authorized, #"siwatch_grants_total{outcome="applied"} 7"#, "siwatch_seals_total 7")

            daemon.signal(SIGHUP)
            let message = try await listener.receive(where: { $0.hasPrefix("RELOADING=1") })
            #expect(message?.wholeMatch(of: /RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+/) != nil)
            try await listener.expect("READY=1")
        }
        try await listener.expect("STOPPING=1")
        withExtendedLifetime(folder) {}
    }
}

extension DatagramSocket {
    /// Passes over what is not meant.
    fileprivate func receive(where isMeant: (String) -> Bool) async throws -> String? {
        var message: String?
        try await eventually {
            message = receive()
            return message.map(isMeant) ?? false
        }
        return message
    }

    fileprivate func expect(_ message: String) async throws { _ = try await receive { $0 == message } }
}
