// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialMonitor
import DaemonHarness
import Foundation
import Testing

/// The documented metrics are those that a working daemon serves, and those that alerts and dashboard read.
struct CatalogueTests {
    @Test(.receiver(onEach: [.file], listen: "127.0.0.1:0", "", tables: ["refresh": "interval = \"1s\""]))
    func aLiveScrapeHasTheWholeCatalogue() async throws {
        let signIns = try await site.apple.signIn(5)
        try await site.settle(signIns)
        let news = try await site.apple.notify(RevokeConsent(), users: [signIns[0].userID])
        try await site.backend.insert(notifications: news.map(\.body) + ["{}"])
        try await site.backend.until("SELECT COUNT(*) FROM notification_queue", is: 0)
        let verified = "SELECT COUNT(*) FROM credential WHERE verified_at IS NOT NULL"
        try await site.backend.first(of: verified, within: .seconds(60)) { $0 >= 4 }
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
        for name in Metric.allCases.map(\.name) { #expect(["{", " ", "_"].contains { scrape.contains("\n\(name)\($0)") }, "\(name)") }
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

    @Test func everyMetricIsDocumented() throws {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/telemetry.md"), encoding: .utf8)
        for metric in Metric.allCases {
            let name = metric.name.dropFirst("siwatch_".count)
            let labels = metric.labels.isEmpty ? "" : "{\(metric.labels.joined(separator: ","))}"
            #expect(page.contains("`\(name)\(labels)`"), "\(name)\(labels)")
        }
    }
}
