// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialMonitor
import DaemonHarness
import Foundation
import Testing

/// The documented metrics are those that a working daemon serves, and those that alerts and dashboard read.
struct CatalogueTests {
    @Test func aLiveScrapeHasTheWholeCatalogue() async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        let tables = try Hook.table(in: folder, port: 9).merging(["refresh": "interval = \"1s\""]) { $1 }
        _ = try await Site.with(folder, listen: "127.0.0.1:0", tables) { site in
            try await site.daemon { daemon in
                let signIns = try await site.apple.signIn(5)
                try await site.settle(signIns)
                try await site.backend.insert(
                    notifications: try await site.apple.notify(RevokeConsent(), users: [signIns[0].userID]).map(\.body) + ["{}"]
                )
                try await site.backend.until("SELECT COUNT(*) FROM notification_queue", is: 0)
                try await site.backend.first(of: "SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL", within: .seconds(60)) {
                    $0 >= 4
                }
                let pages = try await OperationsPages(of: daemon)
                let nonzero = [
                    "siwatch_ready", "siwatch_settlements_total", "siwatch_seals_total", "siwatch_signing_keys",
                    "siwatch_config_last_reload_successful", "siwatch_config_last_reload_success_timestamp_seconds",
                ]
                // Once in a thousand answers, Apple's clock and the host's agree to the millisecond.
                let scrape = try await pages.get("metrics", within: .seconds(60)) { page in
                    (nonzero + ["siwatch_apple_clock_skew_seconds"]).allSatisfy { !page.contains("\n\($0) 0\n") }
                }

                let types = Set(scrape.matches(of: #/(?m)^# TYPE (siwatch_\w+) .*$/#).map { String($0.1) })
                #expect(types == Set(Metric.allCases.map(\.name)))
                for metric in Metric.allCases {
                    #expect(
                        scrape.contains("\n\(metric.name){") || scrape.contains("\n\(metric.name) ") || scrape.contains("\n\(metric.name)_")
                    )
                }
                // Events that need no long wait have happened.
                for name in nonzero {
                    #expect(scrape.firstMatch(of: try Regex("(?m)^\(name) [1-9]")) != nil, "\(name)")
                }
                #expect(try #require(scrape.firstMatch(of: /(?m)^siwatch_apple_clock_skew_seconds (\S+)$/)).1 != "0")

                let file = site.folder.url.appending(path: "scrape").path
                try scrape.write(toFile: file, atomically: true, encoding: .utf8)
                let script = try ChildProcess(
                    URL(filePath: "/usr/bin/env"),
                    ["python3", Checkout.root.appending(path: "scripts/check-dashboard.py").path, "--scrape", file]
                )
                #expect(await script.exit() == 0, "\(script.output.joined(separator: "\n"))")
            }
        }
    }

    /// The operators' page has every metric, with its labels.
    @Test func everyMetricIsDocumented() throws {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/telemetry.md"), encoding: .utf8)
        for metric in Metric.allCases {
            let name = metric.name.dropFirst("siwatch_".count)
            let labels = metric.labels.isEmpty ? "" : "{\(metric.labels.joined(separator: ","))}"
            #expect(page.contains("`\(name)\(labels)`"), "\(name)\(labels)")
        }
    }
}
