// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// The real program under a wall clock that steps while it runs.
@Suite(.disabled(if: ProcessInfo.processInfo.environment["SIWATCH_NO_FAKETIME"] == "1", "SIWATCH_NO_FAKETIME=1"))
struct SteppedClockTests {
    /// An hour behind while somebody signs in.
    @Test func aSignInUnderAClockThatIsBehindIsKept() async throws {
        try await Site.with { site in
            let clock = try SteppedClock(in: site.folder)
            try await site.daemon(environment: clock.environment) { daemon in
                try clock.step(to: "-1h")
                let signIn = try await site.apple.signIn(1)
                try await site.backend.insert(signIn)
                try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE due_at > 0 AND claimed_by IS NULL", is: 1)
                #expect(await daemon.line(containing: "grants_from_future") != nil)
                try clock.step(to: "+0s")
                try await site.backend.insert(try await site.apple.signIn(1))
                try await site.backend.until("SELECT COUNT(*) FROM grant_log WHERE outcome = 'applied'", is: 2)
                #expect(try await site.backend.int("SELECT COUNT(*) FROM credential WHERE sealed_token IS NOT NULL") == 2)
                #expect(try await site.backend.int("SELECT COUNT(*) FROM credential_state WHERE state = 'authorized'") == 2)
            }
        }
    }

    /// Eight days ahead for a moment, while the program runs and while it starts.
    @Test func aClockThatIsAheadEndsNoWaitAndForgetsNothing() async throws {
        try await Site.with { site in
            let clock = try SteppedClock(in: site.folder)
            let now = Int64(Date.now.timeIntervalSince1970 * 1000)
            func logged(_ days: Int64) async throws {
                try await site.backend.execute(
                    """
                    INSERT INTO notification_log (app, jti, client_id, user_id, type, event_time, received_at, settled_at, outcome)
                    VALUES ('example', ?1, 'com.example.app', 'u', 'other', 0, ?2, ?2, 'duplicate')
                    """,
                    ["\(days)", now - days * 86_400_000]
                )
            }
            func left() async throws -> [String] {
                try await site.backend.rows("SELECT jti FROM notification_log ORDER BY jti").map { $0[0] as String }
            }
            for days: Int64 in [99, 85] { try await logged(days) }
            #expect(try await site.folder.run("run", "--once", environment: clock.environment).status == 0)
            #expect(try await left() == ["85"])

            try await site.daemon(environment: clock.environment) { daemon in
                try await site.backend.execute(
                    "INSERT INTO grant_queue (client_id, user_id, refresh_token) VALUES ('com.example.forgotten', 'ann', 'r')"
                )
                try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE due_at > 0 AND claimed_by IS NULL", is: 1)
                try clock.step(to: "+8d")
                #expect(await daemon.line(containing: "clock_doubted") != nil)
                try await site.backend.until("SELECT COUNT(*) FROM grant_queue WHERE due_at > \(now + 8 * 86_400_000)", is: 1)
                try clock.step(to: "+0s")
                // Without a token: nothing of Apple's is to be asked eight days ahead.
                var signIn = try await site.apple.signIn(1)
                signIn[0].refreshToken = nil
                try await site.settle(signIn)
            }
            try clock.step(to: "+8d")
            #expect(try await site.folder.run("run", "--once", environment: clock.environment).status == 0)
            #expect(try await left() == ["85"])
            #expect(try await site.backend.int("SELECT COUNT(*) FROM grant_queue WHERE refresh_token = 'r'") == 1)
        }
    }
}

/// A wall clock of a process that a test sets while the process runs. Its monotonic clock is left alone.
private struct SteppedClock {
    let environment: [String: String]
    private let file: URL

    init(in folder: WatchedFolder) throws {
        let tools = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        let system = ["x86_64-linux-gnu", "aarch64-linux-gnu"].map { "/usr/lib/\($0)/faketime" }
        let library = try #require(
            (tools + system).map { "\($0)/libfaketime.so.1" }.first(where: FileManager.default.fileExists),
            """
            libfaketime.so.1 is not on the PATH. Debian has it in the package libfaketime; SIWATCH_NO_FAKETIME=1 does without \
            these tests.
            """
        )
        file = folder.url.appending(path: "clock")
        environment = [
            "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": file.path, "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            // Without a name of shared memory the library makes one and sets the variable; Swift then finds no arguments any more.
            "FAKETIME_SHARED": "/none /none",
        ]
        try step(to: "+0s")
    }

    /// - Parameter offset: as libfaketime reads it, such as `-1h` or `+8d`.
    func step(to offset: String) throws {
        try offset.write(to: file, atomically: true, encoding: .utf8)
    }
}
