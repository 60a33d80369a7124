// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import Testing

/// The memory of a daemon, which holds keys and tokens in clear.
struct PrivateMemoryTests {
    /// The kernel closes parts of /proc of such a daemon, but none that the metrics of the process come from.
    @Test(.enabled(if: Servant.canBeRun)) func noOtherProcessOfItsUserReadsItAndTheMetricsStay() async throws {
        try await Site.with(listen: "127.0.0.1:0") { site in
            try Servant.take(over: site.folder)
            let daemon = try Servant.start("run", in: site.folder)
            defer { daemon.signal(SIGKILL) }
            #expect(await daemon.line(containing: "siwatch is ready") != nil)
            let folder = "/proc/\(daemon.identifier)"
            for file in ["environ", "auxv", "mem"] {
                let reader = try Servant.start(program: "/bin/dd", ["if=\(folder)/\(file)", "of=/dev/null", "count=1"])
                #expect(await reader.exit() != 0 && reader.output.joined().contains("Permission denied"), "\(reader.output)")
            }
            let limits = try #require(FileManager.default.contents(atPath: "\(folder)/limits"))
            #expect(String(decoding: limits, as: UTF8.self).contains(#/Max core file size +0 +0 /#))

            let scrape = try await OperationsPages(of: daemon).get("metrics")
            for metric in [
                "cpu_seconds_total", "max_fds", "open_fds", "resident_memory_bytes", "start_time_seconds", "virtual_memory_bytes",
            ] {
                #expect(scrape.contains("\nprocess_\(metric) "), "\(metric)")
            }
            daemon.signal(SIGTERM)
            #expect(await daemon.exit() == 0)
        }
    }
}
