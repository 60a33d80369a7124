// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// A backend's endpoint for webhooks as a process of its own, to kill. A webhook that it takes is on disk before its answer.
struct ReceiverProcess: Sendable {
    /// What it took.
    struct Hook: Sendable, Hashable {
        var id: String
        var change: Int
        /// The body without `ends_sessions_before`, which is as of the sending.
        var body: String
    }

    let process: ChildProcess
    let port: Int

    /// A loopback address that no other program of the tests uses. So none takes the port between a kill and the next start.
    static let host = "127.0.0.2"

    /// Starts one and waits until it listens.
    ///
    /// - Parameters:
    ///   - file: has what its predecessors took, and gets what it takes.
    ///   - port: 0 lets the system choose.
    ///   - refused: how many of 100 webhooks it refuses with 500.
    ///   - seed: of its refusals, and of the time that it takes to answer.
    init(keepingIn file: URL, port: Int = 0, refused: Int, seed: UInt64) async throws {
        let script = Checkout.root.appending(path: "scripts/receive_webhooks.py").path
        process = try ChildProcess.found(["python3", "-IS", script, file.path, "\(port)", "\(seed)", "\(refused)"])
        guard let line = await process.line(containing: "listening on http"),
            let chosen = line.split(separator: ":").last.flatMap({ Int($0) })
        else {
            process.signal(SIGKILL)
            throw HarnessError("the receiver did not start: \(process.output.joined(separator: "\n"))")
        }
        self.port = chosen
    }

    /// How many different webhooks the file has.
    var kept: Int { process.output.last { $0.hasPrefix("kept: ") }.flatMap { Int($0.dropFirst("kept: ".count).dropLast()) } ?? 0 }

    /// Waits until the file has so many different webhooks, or the process ends.
    func keeps(_ number: Int) async { _ = await process.line(containing: "kept: \(number).") }

    static func hooks(in file: URL) throws -> [Hook] {
        try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map { line in
            let parts = try JSONDecoder().decode([String].self, from: Data(line.utf8))
            guard parts.count == 2, let change = parts[1].firstMatch(of: /"change_id":"([0-9]+)-/).flatMap({ Int($0.output.1) }) else {
                throw HarnessError("not a webhook of a change: \(line)")
            }
            return Hook(id: parts[0], change: change, body: parts[1].replacing(/"ends_sessions_before":(?:null|[0-9]+),/, with: ""))
        }
    }
}
