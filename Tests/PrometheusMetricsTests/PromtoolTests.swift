// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Metrics
import PrometheusMetrics
import Testing

struct PromtoolTests {
    @Test(
        .disabled(if: ProcessInfo.processInfo.environment["SIWATCH_NO_PROMTOOL"] == "1", "SIWATCH_NO_PROMTOOL=1")
    )
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
        let factory = registry
        Counter(label: "x_total", dimensions: [("b", awkward), ("a", "")], factory: factory).increment()
        for value in [Double.nan, .infinity, -.infinity, 1e300, .leastNonzeroMagnitude, -0.0] {
            Meter(label: "x_ratio", dimensions: [("value", "\(value)")], factory: factory).set(value)
        }
        Timer(label: "x_seconds", dimensions: [("a", awkward)], factory: factory).recordSeconds(2)
        return registry.exposition()
    }
}
