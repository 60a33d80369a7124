// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Metrics
import PrometheusMetrics
import Testing

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

    @Test(
        arguments: [
            (nil, .prometheus), ("", .prometheus), ("*/*", .prometheus), ("text/html, */*;q=0.8", .prometheus),
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
        ] as [(String?, ExpositionFormat)]
    )
    func theScraperChoosesTheFormat(_ accept: String?, _ format: ExpositionFormat) {
        #expect(ExpositionFormat(accept: accept) == format)
    }
}
