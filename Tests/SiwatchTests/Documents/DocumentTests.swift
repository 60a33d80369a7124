// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Testing

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
        for path in paths + scripts + ["Sources/", "Tests/"] { #expect(kept.contains { path.hasPrefix($0) }, "\(path)") }
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
        return (["README.md", "CONTRIBUTING.md", "SECURITY.md"] + files)
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
