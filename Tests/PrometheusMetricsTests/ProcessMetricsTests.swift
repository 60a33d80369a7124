// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Metrics
import PrometheusMetrics
import Testing

struct ProcessMetricsTests {
    static let names = [
        "process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes",
        "process_start_time_seconds", "process_virtual_memory_bytes",
    ]

    @Test func theyAreReadWhateverTheProcessIsCalled() throws {
        let root = FileManager.default.temporaryDirectory.appending(path: "siwatch-proc-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        try FileManager.default.createDirectory(at: root.appending(path: "self/fd"), withIntermediateDirectories: true)
        for descriptor in 0..<8 { try Data().write(to: root.appending(path: "self/fd/\(descriptor)")) }
        let command = Data("41 (a) R (1 2\n) \u{301}".utf8) + [0xFF]
        let fields = ") S 1 41 41 0 -1 4194560 9 9 9 9 150 250 7 7 20 0 9 0 5000 314572800 1000 18446744073709551615 1 1\n"
        try (command + Data(fields.utf8)).write(to: root.appending(path: "self/stat"))
        try Data("Limit  Soft  Hard  Units\nMax processes  7  8  processes\nMax open files  1024  524288  files\n".utf8)
            .write(to: root.appending(path: "self/limits"))
        try Data("cpu  1 2 3 4\nctxt 9\nbtime 1700000000\nprocesses 5\n".utf8).write(to: root.appending(path: "stat"))

        let page = try ParsedExposition(PrometheusRegistry(process: ProcessMetrics(root: root.path)).exposition())
        #expect(page.families.map(\.name) == Self.names)
        #expect(page.families.map(\.type) == ["counter", "gauge", "gauge", "gauge", "gauge", "gauge"])
        let ticks = Double(sysconf(Int32(_SC_CLK_TCK)))
        #expect(page.value("process_cpu_seconds_total") == 400 / ticks)
        #expect(page.value("process_max_fds") == 1024)
        #expect(page.value("process_open_fds") == 7)
        #expect(page.value("process_resident_memory_bytes") == 1000 * Double(sysconf(Int32(_SC_PAGESIZE))))
        #expect(page.value("process_start_time_seconds") == 1_700_000_000 + 5000 / ticks)
        #expect(page.value("process_virtual_memory_bytes") == 314_572_800)
    }

    @Test func theyStandInOrderAmongTheOthersWhichKeepTheirNames() throws {
        let registry = PrometheusRegistry([
            MetricDescription("zebra", .gauge, help: "Z."),
            MetricDescription("process_open_fds", .gauge, help: "Mine."),
            MetricDescription("antelope", .gauge, help: "A."),
        ])
        let families = try ParsedExposition(registry.exposition()).families
        #expect(families.map(\.name) == families.map(\.name).sorted())
        #expect(families.first { $0.name == "process_open_fds" }?.help == "Mine.")
    }

    #if os(Linux)
        @Test func theyTellTheTruthAboutThisProcess() throws {
            let page = try ParsedExposition(PrometheusRegistry().exposition())
            let values = try Self.names.map { try #require(page.value($0)) }
            // A process this young may not have used a tick of the CPU yet.
            #expect(values[0] >= 0 && values[1...].allSatisfy { $0 > 0 })
            #expect(values[1] >= values[2])
            #expect(values[5] >= values[3])
            #expect(Date(timeIntervalSince1970: values[4]) < Date(timeIntervalSinceNow: 1))
        }
    #endif

    @Test func withoutProcThereAreNone() {
        #expect(PrometheusRegistry(process: ProcessMetrics(root: "/nowhere")).exposition().isEmpty)
    }
}
