// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Logging
import MetricsTestKit
import Testing

struct LogPinTests {
    @Test func isToldAfterAMinuteOnceAndAtItsEnd() throws {
        let (metrics, log) = (TestMetrics(), LogRecorder())
        let pin = ErasureBlocker(telemetry: Telemetry(logger: Logger(label: "test") { _ in log }, factory: metrics, pseudonym: { $0 }))
        func since() throws -> Double? { try metrics.expectMeter("siwatch_log_pinned_since_timestamp_seconds").lastValue }
        let start = Timestamp(milliseconds: 1_750_000_000_000)

        pin.observe(since: start, at: start)
        #expect(try since() == 1_750_000_000)
        pin.observe(since: nil, at: start.advanced(by: .seconds(59)))
        #expect(log.events == [])
        #expect(try since() == 0)

        for minute in 0...3 { pin.observe(since: start, at: start.advanced(by: .seconds(60 * minute))) }
        #expect(log.events == ["log_pinned"])
        for _ in 1...2 { pin.observe(since: nil, at: start.advanced(by: .seconds(240))) }
        #expect(log.events == ["log_pinned", "log_emptied"])
    }
}
