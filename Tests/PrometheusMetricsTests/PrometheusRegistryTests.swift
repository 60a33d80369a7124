// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Metrics
import PrometheusMetrics
import Testing

struct PrometheusRegistryTests {
    let registry = PrometheusRegistry(
        [
            MetricDescription("seals_total", .counter, help: "Tokens sealed."),
            MetricDescription("store_full", .gauge, help: "1 while the disk is full."),
            MetricDescription("batch_size", .histogram(buckets: [1, 10]), help: "Settlements in one commit."),
            MetricDescription("refreshes_total", .counter, help: "Answers.", labels: ["outcome", "app"]),
        ],
        process: nil
    )

    func value(_ name: String, _ labels: [String: String] = [:]) throws -> Double? {
        try ParsedExposition(registry.exposition()).value(name, labels)
    }

    @Test func aDeclaredMetricStandsAtZeroFromTheStartOrFromItsFirstHandleOn() throws {
        #expect(try value("seals_total") == 0)
        #expect(try value("store_full") == 0)
        #expect(try value("batch_size_count") == 0)
        #expect(try ParsedExposition(registry.exposition()).families.map(\.samples.count) == [5, 0, 1, 1])

        _ = Counter(label: "refreshes_total", dimensions: [("app", "example"), ("outcome", "valid")], factory: registry)
        #expect(try value("refreshes_total", ["app": "example", "outcome": "valid"]) == 0)
    }

    @Test func handlesOfOneNameAndTheSameLabelsShareOneSeries() throws {
        let labels = [("app", "example"), ("outcome", "valid")]
        Counter(label: "refreshes_total", dimensions: labels, factory: registry).increment(by: 2)
        Counter(label: "refreshes_total", dimensions: labels.reversed(), factory: registry).increment(by: 3)
        #expect(try value("refreshes_total", ["app": "example", "outcome": "valid"]) == 5)

        Meter(label: "store_full", factory: registry).set(4)
        Meter(label: "store_full", factory: registry).increment(by: 2)
        Meter(label: "store_full", factory: registry).decrement()
        #expect(try value("store_full") == 5)
    }

    @Test func metricsAreSortedByNameAndSeriesByLabels() throws {
        let names = ["zebra", "b", "a_b", "a"]
        let registry = PrometheusRegistry(names.map { MetricDescription($0, .gauge, help: "X.", labels: ["v"]) }, process: nil)
        for name in names { for value in ["z", "a", "m"] { Meter(label: name, dimensions: [("v", value)], factory: registry).set(0) } }
        let families = try ParsedExposition(registry.exposition()).families
        #expect(families.map(\.name) == ["a", "a_b", "b", "zebra"])
        #expect(families.last?.samples.map(\.labels) == [["v": "a"], ["v": "m"], ["v": "z"]])
    }

    @Test(arguments: Clash.all) func aClashChangesNothingButTheCountOfClashes(_ clash: Clash) throws {
        let before = registry.exposition()
        clash.register(registry)
        #expect(registry.exposition() == before)
        #expect(registry.clashes == 1)
    }

    @Test func aCounterIgnoresWhatNoCountCanGrowBy() throws {
        let counter = Counter(label: "seals_total", factory: registry)
        counter.increment(by: -1)
        #expect(try value("seals_total") == 0)

        counter.increment(by: Int64.max)
        counter.increment(by: Int64.max)
        #expect(try value("seals_total") == 0x1p64)

        counter.reset()
        #expect(try value("seals_total") == 0)
    }

    /// A gauge with a failed reading has no value.
    @Test func aDestroyedGaugeLeavesThePageAndOthersStay() throws {
        let gauge = Meter(label: "store_full", factory: registry)
        gauge.set(1)
        gauge.destroy()
        #expect(try value("store_full") == nil)
        Meter(label: "store_full", factory: registry).set(1)
        #expect(try value("store_full") == 1)
        Counter(label: "seals_total", factory: registry).increment()
        Counter(label: "seals_total", factory: registry).destroy()
        Recorder(label: "batch_size", factory: registry).destroy()
        #expect(try value("seals_total") == 1)
        #expect(try value("batch_size_count") == 0)
    }

    @Test func nothingIsLostBetweenTasks() async throws {
        await withTaskGroup { group in
            for task in 0..<8 {
                group.addTask {
                    let labels = [("app", "example"), ("outcome", task.isMultiple(of: 2) ? "valid" : "rejected")]
                    for _ in 0..<2000 {
                        Counter(label: "refreshes_total", dimensions: labels, factory: registry).increment()
                        Meter(label: "store_full", factory: registry).increment()
                        Recorder(label: "batch_size", factory: registry).record(task)
                    }
                }
            }
        }
        #expect(try value("refreshes_total", ["app": "example", "outcome": "valid"]) == 8000)
        #expect(try value("refreshes_total", ["app": "example", "outcome": "rejected"]) == 8000)
        #expect(try value("store_full") == 16000)
        #expect(try value("batch_size_count") == 16000)
        #expect(try value("batch_size_sum") == 2000 * 28)
    }
}

/// An invalid registration.
struct Clash: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var register: @Sendable (PrometheusRegistry) -> Void

    static let all = [
        Clash("a counter as a gauge") { Gauge(label: "seals_total", factory: $0).record(1) },
        Clash("a counter as a meter") { Meter(label: "seals_total", factory: $0).set(1) },
        Clash("a counter as a timer") { Timer(label: "seals_total", factory: $0).recordSeconds(1) },
        Clash("a gauge as a counter") { Counter(label: "store_full", factory: $0).increment() },
        Clash("a gauge as a histogram") { Recorder(label: "store_full", factory: $0).record(1) },
        Clash("a histogram as a gauge") { Meter(label: "batch_size", factory: $0).set(1) },
        Clash("a series of another kind") {
            Meter(label: "refreshes_total", dimensions: [("app", "a"), ("outcome", "b")], factory: $0).set(1)
        },
        Clash("a name that a histogram writes") { Counter(label: "batch_size_sum", factory: $0).increment() },
        Clash("a name that was not declared") { Counter(label: "new_total", factory: $0).increment() },
        Clash("a label that was not declared") { Counter(label: "seals_total", dimensions: [("user", "a")], factory: $0).increment() },
        Clash("a declared label too few") { Counter(label: "refreshes_total", dimensions: [("app", "a")], factory: $0).increment() },
        Clash("a label twice") { Counter(label: "new_total", dimensions: [("a", "1"), ("a", "2")], factory: $0).increment() },
        Clash("two labels that become one") {
            Counter(label: "new_total", dimensions: [("a.b", "1"), ("a-b", "2")], factory: $0).increment()
        },
        Clash("the histogram's own label") { Timer(label: "new_seconds", dimensions: [("le", "1")], factory: $0).recordSeconds(1) },
        Clash("Prometheus's own label") { Counter(label: "new_total", dimensions: [("__name__", "x")], factory: $0).increment() },
    ]

    private init(_ description: String, register: @escaping @Sendable (PrometheusRegistry) -> Void) {
        self.testDescription = description
        self.register = register
    }
}

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
