// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

/// The kernel's records about a process.
struct ProcessUsage: Sendable {
    /// Processor time since the process began, in its own code and in the kernel.
    let processorTime: Duration
    /// Bytes that the process wrote since it began, to any file: here the database, its log, and the log lines.
    let written: Int
    /// Resident memory in bytes, and its part without a file behind it.
    let resident, anonymous: Int

    init(of process: ChildProcess) throws {
        let folder = "/proc/\(process.identifier)"
        // Fields of proc_pid_stat(5) count from 1. The second is a name that may hold spaces.
        let stat = try String(contentsOfFile: "\(folder)/stat", encoding: .utf8)
        let fields = (stat.split(separator: ")").last ?? "").split(separator: " ")
        guard fields.count > 12, let user = Int(fields[14 - 3]), let system = Int(fields[15 - 3]) else {
            throw HarnessError("\(folder)/stat cannot be read")
        }
        processorTime = .seconds(Double(user + system) / Double(sysconf(Int32(_SC_CLK_TCK))))

        written = try Self.number("wchar", in: "\(folder)/io")
        resident = try Self.number("VmRSS", in: "\(folder)/status") * 1024
        anonymous = try Self.number("RssAnon", in: "\(folder)/status") * 1024
    }

    /// The process's share of one core while time passes, and its usage at the end.
    static func share(
        of process: ChildProcess,
        after pause: Duration,
        during time: Duration
    ) async throws -> (share: Double, ProcessUsage) {
        try await Task.sleep(for: pause)
        let before = try ProcessUsage(of: process)
        let start = ContinuousClock.now
        try await Task.sleep(for: time)
        let after = try ProcessUsage(of: process)
        return ((after.processorTime - before.processorTime) / (ContinuousClock.now - start), after)
    }

    private static func number(_ name: String, in file: String) throws -> Int {
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
        let words = lines.first { $0.hasPrefix("\(name):") }?.split(whereSeparator: \.isWhitespace) ?? []
        guard words.count > 1, let number = Int(words[1]) else { throw HarnessError("\(file) says nothing of \(name)") }
        return number
    }

    var memory: String { "\(megabytes(resident)) (\(megabytes(anonymous)) anonymous)" }
}

func megabytes(_ bytes: Int) -> String {
    "\((Double(bytes) / 1_048_576).rounded(to: 1)) MiB"
}
