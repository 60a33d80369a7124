// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// What the kernel has on record about a process.
struct ProcessUsage: Sendable {
    /// Spent since the process began, in its own code and in the kernel for it.
    let processorTime: Duration
    /// Resident memory in bytes, and the part of it that no file backs.
    let resident, anonymous: Int

    init(of process: ChildProcess) throws {
        let folder = "/proc/\(process.identifier)"
        // Fields of proc_pid_stat(5) are counted from 1; the second is a name that may hold spaces.
        let stat = try String(contentsOfFile: "\(folder)/stat", encoding: .utf8)
        let fields = (stat.split(separator: ")").last ?? "").split(separator: " ")
        guard fields.count > 12, let user = Int(fields[14 - 3]), let system = Int(fields[15 - 3]) else {
            throw HarnessError("\(folder)/stat cannot be read")
        }
        processorTime = .seconds(Double(user + system) / Double(sysconf(Int32(_SC_CLK_TCK))))

        let status = try String(contentsOfFile: "\(folder)/status", encoding: .utf8)
        func bytes(_ name: String) -> Int {
            let line = status.split(separator: "\n").first { $0.hasPrefix("\(name):") }
            return (line?.split(whereSeparator: \.isWhitespace).dropFirst().first).flatMap { Int($0) }.map { $0 * 1024 } ?? 0
        }
        resident = bytes("VmRSS")
        anonymous = bytes("RssAnon")
    }

    var memory: String { "\(Self.megabytes(resident)) (\(Self.megabytes(anonymous)) anonymous)" }

    private static func megabytes(_ bytes: Int) -> String {
        "\((Double(bytes) / 1_048_576).rounded(to: 1)) MiB"
    }
}
