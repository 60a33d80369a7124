// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The `process_*` metrics of every Prometheus client, read from Linux's `/proc` (proc(5)). One that cannot be read is absent.
package struct ProcessMetrics: Sendable {
    private let root: String

    package init(root: String = "/proc") { self.root = root }

    func families() -> [String: Family] {
        let status = read("self/stat").flatMap(ProcessStatus.init)
        let start = status.flatMap { status in number(after: "btime", in: "stat").map { $0 + status.startTime } }
        let metrics: [(name: String, kind: MetricDescription.Kind, help: String, value: Double?)] = [
            ("process_cpu_seconds_total", .counter, "Total user and system CPU time spent in seconds.", status?.cpuTime),
            ("process_max_fds", .gauge, "Maximum number of open file descriptors.", mostOpenFiles),
            ("process_open_fds", .gauge, "Number of open file descriptors.", openFiles),
            ("process_resident_memory_bytes", .gauge, "Resident memory size in bytes.", status?.residentMemory),
            ("process_start_time_seconds", .gauge, "Start time of the process since unix epoch in seconds.", start),
            ("process_virtual_memory_bytes", .gauge, "Virtual memory size in bytes.", status?.virtualMemory),
        ]
        return Dictionary(
            uniqueKeysWithValues: metrics.compactMap { name, kind, help, value in
                value.map { (name, Family(kind: kind, help: help, labels: [], series: ["": GaugeSeries($0)])) }
            }
        )
    }

    /// The number of open files, without the descriptor that the count itself opens.
    package var openFiles: Double? {
        (try? FileManager.default.contentsOfDirectory(atPath: "\(root)/self/fd")).map { Double($0.count - 1) }
    }

    package var mostOpenFiles: Double? { number(after: "Max open files", in: "self/limits") }

    /// The first number in the line that begins with these words.
    private func number(after words: String, in path: String) -> Double? {
        let line = read(path)?.split(separator: "\n").first { $0.hasPrefix(words) }
        return line?.dropFirst(words.count).split(separator: " ").first.flatMap { Double($0) }
    }

    /// Reads a file and repairs invalid UTF-8, because a process may have any name.
    private func read(_ path: String) -> String? {
        FileManager.default.contents(atPath: "\(root)/\(path)").map { String(decoding: $0, as: UTF8.self) }
    }
}

/// The fields of `/proc/self/stat`, in seconds and bytes.
private struct ProcessStatus {
    var cpuTime: Double
    var startTime: Double
    var virtualMemory: Double
    var residentMemory: Double

    init?(_ text: String) {
        // The second field is the command in parentheses, which may itself hold blanks and parentheses. proc(5) counts from 1.
        guard let command = text.lastIndex(of: ")") else { return nil }
        let fields = text[command...].split(separator: " ").map { Double($0) ?? 0 }
        guard fields.count > 24 - 2 else { return nil }
        func field(_ number: Int) -> Double { fields[number - 2] }

        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        cpuTime = (field(14) + field(15)) / ticksPerSecond
        startTime = field(22) / ticksPerSecond
        virtualMemory = field(23)
        residentMemory = field(24) * Double(sysconf(Int32(_SC_PAGESIZE)))
    }
}
