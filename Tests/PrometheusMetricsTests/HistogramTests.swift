// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Metrics
import PrometheusMetrics
import Testing

struct HistogramTests {
    let registry = PrometheusRegistry(
        [MetricDescription("lag_seconds", .histogram(buckets: [10, 0.5, .infinity, 1, 0.5, .nan]), help: "From event to state.")],
        process: nil
    )
    func samples() throws -> [ParsedExposition.Sample] { try ParsedExposition(registry.exposition()).families.flatMap(\.samples) }

    @Test func bucketsAreCumulativeIncludeTheirBoundAndArePutInOrder() throws {
        let recorder = Recorder(label: "lag_seconds", factory: registry)
        for value in [-1, 0, 0.5, 0.75, 1, 3, 10, 10.5] { recorder.record(value) }
        recorder.record(100)
        #expect(
            try samples() == [
                .init(name: "lag_seconds_bucket", labels: ["le": "0.5"], value: 3),
                .init(name: "lag_seconds_bucket", labels: ["le": "1"], value: 5),
                .init(name: "lag_seconds_bucket", labels: ["le": "10"], value: 7),
                .init(name: "lag_seconds_bucket", labels: ["le": "+Inf"], value: 9),
                .init(name: "lag_seconds_sum", labels: [:], value: 124.75),
                .init(name: "lag_seconds_count", labels: [:], value: 9),
            ]
        )
    }

    @Test func aTimerRecordsSeconds() throws {
        let timer = Timer(label: "lag_seconds", factory: registry)
        timer.recordMilliseconds(250)
        timer.recordNanoseconds(2_000_000_000)
        #expect(try samples().map(\.value) == [1, 1, 2, 2, 2.25, 2])
        timer.recordNanoseconds(.max)
        #expect(try samples().map(\.value).suffix(3) == [3, 2.25 + 0x1p63 / 1e9, 3])
    }

    @Test func noObservationCanSpoilTheSum() throws {
        let recorder = Recorder(label: "lag_seconds", factory: registry)
        for value in [Double.nan, .signalingNaN, .infinity, -.infinity] { recorder.record(value) }
        #expect(try samples().map(\.value) == [0, 0, 0, 0, 0, 0])
        for _ in 0..<2 { recorder.record(Double.greatestFiniteMagnitude) }
        #expect(try samples().map(\.value).suffix(3) == [2, .greatestFiniteMagnitude, 2])
    }

    @Test func aScrapeSeesAHistogramAtOneMomentHoweverBusyItIs() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let recorder = Recorder(label: "lag_seconds", factory: registry)
                    for _ in 0..<5000 { recorder.record(5) }
                }
            }
            for _ in 0..<200 {
                let values = try samples().map(\.value)
                #expect(values == [0, 0, values[5], values[5], 5 * values[5], values[5]])
            }
            try await group.waitForAll()
        }
        #expect(try samples().last?.value == 20000)
    }
}
