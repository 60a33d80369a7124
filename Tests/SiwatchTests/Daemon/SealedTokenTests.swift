// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB
import Testing

/// Backends that seal tokens with the examples of `Examples/sql`, and the real daemon that opens them.
struct SealedTokenTests {
    private static func example(_ name: String) throws -> String {
        try String(contentsOf: Checkout.root.appending(path: "Examples/sql/\(name)"), encoding: .utf8)
    }

    private static func hex(of program: String, _ arguments: [String]) async throws -> String {
        let process = try ChildProcess(URL(filePath: "/usr/bin/env"), [program] + arguments)
        let status = await process.exit()
        guard status == 0, let hex = process.output.last else {
            throw HarnessError("\(program): \(status), \(process.output.joined(separator: "\n"))")
        }
        return hex
    }

    private func authorizes(_ seal: (_ arguments: [String]) async throws -> String) async throws {
        try await Site.with { site in
            let signIn = try await site.apple.signIn(1)[0]
            let token = try #require(signIn.refreshToken)
            let (status, output) = try await site.folder.siwatch("secret", "public-key")
            #expect(status == 0 && output.count == 1, "\(output)")
            let sealed = try await seal([output[0], token, signIn.clientID, signIn.userID])
            try await site.backend.execute(
                "INSERT INTO grant_queue (client_id, user_id, token_sealed, granted_at) VALUES (?, ?, x'\(sealed)', ?)",
                [signIn.clientID, signIn.userID, signIn.grantedAt.milliseconds]
            )
            try await site.daemon { _ in
                // siwatch has asked about the token, so it has opened it.
                try await site.backend.until("SELECT COUNT(*) FROM credential_state WHERE verified_at IS NOT NULL", is: 1)
            }
            #expect(try await site.backend.int("SELECT COUNT(*) FROM user_state WHERE state = 'authorized'") == 1)
        }
    }

    @Test func aTokenSealedInPythonIsOpened() async throws {
        let script = try Self.example("seal_token.py") + "import sys\nprint(seal_token(*sys.argv[1:]).hex())\n"
        try await authorizes { try await Self.hex(of: "python3", ["-c", script] + $0) }
    }

    private static func hasNode() async throws -> Bool {
        await (try ChildProcess(URL(filePath: "/usr/bin/env"), ["node", "--version"])).exit() == 0
    }

    @Test(.enabled("there is no node on the PATH") { try await hasNode() }) func aTokenSealedInJavaScriptIsOpened() async throws {
        let script = try Self.example("seal-token.mjs") + "console.log(sealToken(...process.argv.slice(1)).toString('hex'));\n"
        try await authorizes {
            try await Self.hex(of: "node", ["--input-type=module", "--eval", script.replacing("export function", with: "function")] + $0)
        }
    }
}
