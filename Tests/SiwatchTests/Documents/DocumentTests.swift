// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialMonitor
import DaemonHarness
import Foundation
import Testing

@testable import siwatch

/// Everything that the documents name exists: pages and their sections, files, folders and modules.
struct DocumentTests {
    @Test func everyLinkAndPathLeadsSomewhere() throws {
        var number = 0
        for page in try Self.pages() {
            let text = try String(contentsOf: page, encoding: .utf8)
            for (target, base) in Self.targets(in: text, of: page) {
                number += 1
                let parts = target.split(separator: "#", omittingEmptySubsequences: false)
                let file = parts[0].isEmpty ? page : base.appending(path: parts[0]).standardized
                #expect(FileManager.default.fileExists(atPath: file.path), "\(page.lastPathComponent): \(target)")
                guard parts.count > 1, let anchored = try? String(contentsOf: file, encoding: .utf8) else { continue }
                #expect(Self.anchors(in: anchored).contains(String(parts[1])), "\(page.lastPathComponent): \(target)")
            }
        }
        #expect(number > 200)
    }

    @Test func everyRunbookHasItsSection() throws {
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/alerts.md"), encoding: .utf8).lowercased()
        for runbook in Runbook.allCases { #expect(page.contains("\n## \(runbook.anchor)\n")) }
    }

    /// A reader knows from the first sentence whether to go on.
    @Test func everyPageSaysForWhomItIsAndHowLongItTakes() throws {
        let folder = Checkout.root.appending(path: "docs")
        let pages = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".md") }
        #expect(pages.count >= 10)
        for page in pages {
            let text = try String(contentsOf: folder.appending(path: page), encoding: .utf8)
            #expect(text.wholeMatch(of: /# [^\n]+\n\nFor (?s:.{1,200}?)minutes\b(?s:.*)/) != nil, "\(page)")
        }
    }

    @Test func everyModuleStandsInTheTable() throws {
        let package = try String(contentsOf: Checkout.root.appending(path: "Package.swift"), encoding: .utf8)
        let architecture = try String(contentsOf: Checkout.root.appending(path: "docs/architecture.md"), encoding: .utf8)
        let modules = package.matches(of: /\.(?:target|executableTarget)\(\s*name: "([\w-]+)"/).map(\.1)
        let rows = architecture.matches(of: /(?m)^\| `([\w-]+)` \|/).map(\.1)
        #expect(!modules.isEmpty && Set(modules).isSubset(of: rows), "\(Set(modules).subtracting(rows))")
    }

    /// Without the folder of one target no other builds. Without a script the image is none, or holds all of ICU's data.
    @Test func theImageIsBuiltFromEveryTarget() throws {
        let package = try String(contentsOf: Checkout.root.appending(path: "Package.swift"), encoding: .utf8)
        let rules = Checkout.root.appending(path: "packaging/container/Containerfile.dockerignore")
        let kept = try String(contentsOf: rules, encoding: .utf8).matches(of: /(?m)^!(.+)$/).map { "\($0.1)/" }
        let paths = package.matches(of: /\bpath: "([^"]+)"/).map { "\($0.1)/" }
        #expect(paths.count > 5)
        let scripts = ["container_root.sh", "setup.sh", "small-icu.py", "split-symbols.sh"].map { "scripts/\($0)/" }
        for path in paths + scripts + ["Sources/", "Tests/", "VERSION/"] { #expect(kept.contains { path.hasPrefix($0) }, "\(path)") }
    }

    /// Each row of the threat model ends with the tests that hold it.
    @Test func everyNamedTestExists() throws {
        let tests = Checkout.root.appending(path: "Tests")
        let sources = try FileManager.default.subpathsOfDirectory(atPath: tests.path).filter { $0.hasSuffix(".swift") }
        let suites = Set(
            try sources.flatMap { source in
                try String(contentsOf: tests.appending(path: source), encoding: .utf8).matches(of: /struct (\w+Tests)\b/).map(\.1)
            }
        )
        for page in try Self.pages() {
            let names = try String(contentsOf: page, encoding: .utf8).matches(of: /`(\w+Tests)`/).map(\.1)
            #expect(suites.isSuperset(of: names), "\(page.lastPathComponent): \(Set(names).subtracting(suites))")
        }
        let page = try String(contentsOf: Checkout.root.appending(path: "docs/threat-model.md"), encoding: .utf8)
        let table = try #require(page.components(separatedBy: "|---|---|---|\n").last?.components(separatedBy: "\n\n").first)
        let rows = table.split(separator: "\n")
        #expect(rows.count >= 10)
        for row in rows { #expect(row.contains(/`\w+Tests`[^|]*\|$/), "\(row)") }
    }

    private static func pages() throws -> [URL] {
        let files = try ["docs", "etc"].flatMap { folder in
            try FileManager.default.subpathsOfDirectory(atPath: Checkout.root.appending(path: folder).path).map { "\(folder)/\($0)" }
        }
        return (["README.md", "CONTRIBUTING.md", "SECURITY.md", "GOVERNANCE.md", "CODE_OF_CONDUCT.md"] + files)
            .map { Checkout.root.appending(path: $0) }.filter { !["", "png"].contains($0.pathExtension) }
    }

    /// The links of a page, relative to its folder, and its paths, relative to the root.
    private static func targets(in text: String, of page: URL) -> [(target: Substring, base: URL)] {
        guard page.pathExtension == "md" else {
            return text.matches(of: /(?m)(?:^|[\s"(])((?:docs|etc|scripts|systemd|Sources|Instruments|Tests)\/[\w.\/-]*\w(?:#[\w-]+)?)/)
                .map { ($0.1, Checkout.root) }
        }
        let links = text.matches(of: /\]\(([^)\s]+)\)/).map(\.1).filter { !$0.contains("://") }
        let paths = text.matches(of: /`((?:\w[\w.+-]*\/)+[\w.+-]*|\w+\.(?:md|swift))`/).map(\.1)
        return links.map { ($0, page.deletingLastPathComponent()) } + paths.map { ($0, Checkout.root) }
    }

    /// The anchors of headings, as a Markdown renderer makes them.
    private static func anchors(in text: String) -> Set<String> {
        let titles = text.replacing(/(?ms)^ *```.*?^ *```$/, with: "").matches(of: /(?m)^#+ +(.+)$/).map(\.1)
        return Set(titles.map { $0.lowercased().filter { $0.isLetter || $0.isNumber || "_- ".contains($0) }.replacing(" ", with: "-") })
    }
}

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
        for name in nonzero { #expect(scrape.firstMatch(of: try Regex("(?m)^\(name) [1-9]")) != nil, "\(name)") }
        #expect(try #require(scrape.firstMatch(of: /(?m)^siwatch_apple_clock_skew_seconds (\S+)$/)).1 != "0")

        let file = site.folder.path("scrape")
        try scrape.write(toFile: file, atomically: true, encoding: .utf8)
        let checker = Checkout.root.appending(path: "scripts/check-dashboard.py").path
        let script = try ChildProcess.found(["python3", checker, "--scrape", file])
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
