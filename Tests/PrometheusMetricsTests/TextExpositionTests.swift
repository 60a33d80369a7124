// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Metrics
import PrometheusMetrics
import Testing

struct TextExpositionTests {
    @Test func aPageIsWrittenExactlySo() {
        let registry = PrometheusRegistry(
            [
                MetricDescription("queue_depth", .gauge, help: "Rows that wait.", labels: ["queue"]),
                MetricDescription("grants_total", .counter, help: #"Backslash \ quote " and"# + "\nnewline."),
                MetricDescription("lag_seconds", .histogram(buckets: [0.5, 10]), help: "From event to state.", labels: ["app"]),
                MetricDescription("seals_total", .counter, help: "Tokens sealed."),
            ],
            process: nil
        )
        Counter(label: "grants_total", factory: registry).increment(by: 3)
        Meter(label: "queue_depth", dimensions: [("queue", "revocation")], factory: registry).set(1.5)
        Meter(label: "queue_depth", dimensions: [("queue", "grant")], factory: registry).set(2)
        Recorder(label: "lag_seconds", dimensions: [("app", "a \\ b \" c \n d")], factory: registry).record(0.25)

        #expect(
            registry.exposition() == #"""
                # HELP grants_total Backslash \\ quote " and\nnewline.
                # TYPE grants_total counter
                grants_total 3
                # HELP lag_seconds From event to state.
                # TYPE lag_seconds histogram
                lag_seconds_bucket{app="a \\ b \" c \n d",le="0.5"} 1
                lag_seconds_bucket{app="a \\ b \" c \n d",le="10"} 1
                lag_seconds_bucket{app="a \\ b \" c \n d",le="+Inf"} 1
                lag_seconds_sum{app="a \\ b \" c \n d"} 0.25
                lag_seconds_count{app="a \\ b \" c \n d"} 1
                # HELP queue_depth Rows that wait.
                # TYPE queue_depth gauge
                queue_depth{queue="grant"} 2
                queue_depth{queue="revocation"} 1.5
                # HELP seals_total Tokens sealed.
                # TYPE seals_total counter
                seals_total 0

                """#
        )
    }

    @Test(arguments: [
        (0 as Double, "0"), (-0.0, "-0"), (42, "42"), (-1.5, "-1.5"), (0.1, "0.1"), (1e21, "1e+21"), (.leastNonzeroMagnitude, "5e-324"),
        (9_007_199_254_740_991, "9007199254740991"), (.infinity, "+Inf"), (-.infinity, "-Inf"), (.nan, "NaN"),
    ])
    func numbersAreWrittenAsGoReadsThem(value: Double, text: String) {
        let registry = PrometheusRegistry([MetricDescription("x", .gauge, help: "X.")], process: nil)
        Meter(label: "x", factory: registry).set(value)
        #expect(registry.exposition().hasSuffix("\nx \(text)\n"))
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>) func whateverStandsInHelpLabelsAndValuesIsReadBackAsItWas(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let help = random.text()
        let names = ["a", "b", "c"].shuffled(using: &random).prefix(Int.random(in: 0...3, using: &random))
        let registry = PrometheusRegistry([MetricDescription("x", .gauge, help: help, labels: Array(names))], process: nil)

        var expected: [[String: String]: Double] = [:]
        for _ in 0..<200 {
            let labels = names.map { ($0, random.text()) }.shuffled(using: &random)
            let value = random.value()
            Meter(label: "x", dimensions: labels, factory: registry).set(value)
            // An empty label counts as absent.
            expected[Dictionary(uniqueKeysWithValues: labels.filter { !$0.1.isEmpty })] = value
        }

        let family = try #require(ParsedExposition(registry.exposition()).families.first)
        #expect(Array(family.help.unicodeScalars) == Array(help.unicodeScalars))
        let read = Dictionary(uniqueKeysWithValues: family.samples.map { ($0.labels, $0.value) })
        #expect(read.mapValues(\.bitPattern) == expected.mapValues(\.bitPattern))
        #expect(registry.clashes == 0)
    }
}

/// A small, seeded generator. A failure names its seed, which repeats it.
private struct SplitMix64: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    /// Short, so that equal texts occur, and full of characters with a meaning in the format.
    mutating func text() -> String {
        let scalars = Array("\\\"\n\r\t\0 n{}=,#+é\u{301}\u{2028}😀".unicodeScalars)
        var text = String.UnicodeScalarView()
        for _ in 0..<Int.random(in: 0...6, using: &self) { text.append(scalars.randomElement(using: &self)!) }
        return String(text)
    }

    mutating func value() -> Double {
        switch UInt8.random(in: 0..<4, using: &self) {
        case 0: [0, -0.0, .infinity, -.infinity, .nan, .greatestFiniteMagnitude, .leastNonzeroMagnitude].randomElement(using: &self)!
        case 1: Double(Int64.random(in: .min ... .max, using: &self))
        case 2: Double.random(in: -1...1, using: &self)
        default: Double(Int.random(in: -1000...1000, using: &self))
        }
    }
}

struct OpenMetricsTests {
    @Test func aPageIsWrittenExactlySo() {
        let registry = PrometheusRegistry(
            [
                MetricDescription("grants_total", .counter, help: #"Backslash \ quote " and"# + "\nnewline."),
                MetricDescription("lag_seconds", .histogram(buckets: [0.5, 10]), help: "From event to state."),
                MetricDescription("queue_depth", .gauge, help: "Rows that wait."),
            ],
            process: nil
        )
        Counter(label: "grants_total", factory: registry).increment(by: 3)
        #expect(
            registry.exposition(.openMetrics) == #"""
                # HELP grants Backslash \\ quote \" and\nnewline.
                # TYPE grants counter
                grants_total 3
                # HELP lag_seconds From event to state.
                # TYPE lag_seconds histogram
                lag_seconds_bucket{le="0.5"} 0
                lag_seconds_bucket{le="10.0"} 0
                lag_seconds_bucket{le="+Inf"} 0
                lag_seconds_sum 0
                lag_seconds_count 0
                # HELP queue_depth Rows that wait.
                # TYPE queue_depth gauge
                queue_depth 0
                # EOF

                """#
        )
    }

    @Test(arguments: [
        (nil as String?, ExpositionFormat.prometheus), ("", .prometheus), ("*/*", .prometheus), ("text/html, */*;q=0.8", .prometheus),
        ("application/openmetrics-text", .openMetrics), ("application/openmetrics-text; version=1.0.0", .openMetrics),
        ("application/openmetrics-text;version=2.0.0", .prometheus), ("application/openmetrics-text;q=0", .prometheus),
        // The request of Prometheus 2.42.
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            .openMetrics
        ),
        // The request of Prometheus 3.
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            .openMetrics
        ),
        ("text/plain;version=0.0.4, application/openmetrics-text;q=0.9", .prometheus), (";;,q=x;", .prometheus),
    ])
    func theScraperChoosesTheFormat(_ accept: String?, _ format: ExpositionFormat) {
        #expect(ExpositionFormat(accept: accept) == format)
    }
}

struct PromtoolTests {
    @Test(.disabled(if: ProcessInfo.processInfo.environment["SIWATCH_NO_PROMTOOL"] == "1", "SIWATCH_NO_PROMTOOL=1"))
    func thePageSatisfiesPrometheussOwnLinter() throws {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        let promtool = try #require(
            path.split(separator: ":").map { "\($0)/promtool" }.first(where: FileManager.default.isExecutableFile),
            "promtool is not on the PATH. Debian has it in the package prometheus; SIWATCH_NO_PROMTOOL=1 does without this test."
        )
        let file = FileManager.default.temporaryDirectory.appending(path: "promtool-\(UUID().uuidString)")
        try page().write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }
        let tool = try #require(popen("'\(promtool)' check metrics < '\(file.path)' 2>&1", "r"))
        var complaints: [UInt8] = []
        while case let byte = fgetc(tool), byte != EOF { complaints.append(UInt8(byte)) }
        #expect(pclose(tool) == 0)
        #expect(String(decoding: complaints, as: UTF8.self) == "")
    }

    /// Metrics of every kind, with awkward names and values.
    private func page() -> String {
        let awkward = "\\ \" \n \r\n {} é😀"
        let registry = PrometheusRegistry([
            MetricDescription("x_total", .counter, help: awkward, labels: ["a", "b"]),
            MetricDescription("x_ratio", .gauge, help: "A gauge.", labels: ["value"]),
            MetricDescription("x_seconds", .histogram(buckets: [0.5, 1e9]), help: "A histogram.", labels: ["a"]),
            MetricDescription("x_empty_total", .counter, help: "A family without series.", labels: ["a"]),
        ])
        Counter(label: "x_total", dimensions: [("b", awkward), ("a", "")], factory: registry).increment()
        for value in [Double.nan, .infinity, -.infinity, 1e300, .leastNonzeroMagnitude, -0.0] {
            Meter(label: "x_ratio", dimensions: [("value", "\(value)")], factory: registry).set(value)
        }
        Timer(label: "x_seconds", dimensions: [("a", awkward)], factory: registry).recordSeconds(2)
        return registry.exposition()
    }
}
