// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

/// One fact that an operator should know, and what to do about it.
struct Finding: Codable, Equatable {
    var severity: Severity
    var sentence: String
    /// What to do. Nil if the sentence says it, or if nothing is to be done.
    var remedy: String?
    /// The section of docs/alerts.md: the anchor of a `Runbook`.
    var runbook: String?

    /// What to do and where it stands; nil if there is nothing to do.
    var advice: String? {
        let page = runbook.map(Self.page(ofRunbook:))
        return remedy == nil && page == nil ? nil : [remedy, page].compactMap(\.self).joined(separator: "; ")
    }

    /// Where a runbook stands on this host, or in the repository.
    static func page(ofRunbook runbook: String) -> String { "\(page("alerts.md"))#\(runbook)" }

    /// Where a page stands on this host, or in the repository.
    static func page(_ name: String) -> String {
        let folders = ["/usr/local/share/doc/siwatch", "/usr/share/doc/siwatch"]
        let folder = folders.first { FileManager.default.fileExists(atPath: "\($0)/\(name)") }
        return "\(folder ?? "docs")/\(name)"
    }

    /// As text, with the advice below.
    var lines: [String] { [sentence] + (advice.map { ["    \($0)"] } ?? []) }

    /// The same after a verdict, for commands that look for what is wrong.
    var judged: String { "\(severity.verdict.padded(to: 9))\(sentence)" + (advice.map { "\n\("".padded(to: 9))\($0)" } ?? "") }

    init(_ severity: Severity, _ sentence: String, remedy: String? = nil, runbook: Runbook? = nil) {
        self.severity = severity
        self.sentence = sentence
        self.remedy = remedy
        self.runbook = runbook?.anchor
    }

    enum Severity: String, Codable, CaseIterable, Comparable {
        /// Worth knowing, no trouble.
        case note
        /// Something is wrong that can wait for the morning, as a ticket.
        case degraded
        /// Users lose something now, or siwatch does not work: somebody is needed, as for a page.
        case down

        static func < (left: Severity, right: Severity) -> Bool { left.exitCode < right.exitCode }

        /// As Nagios's plugins exit.
        var exitCode: Int32 {
            switch self {
            case .note: 0
            case .degraded: 1
            case .down: 2
            }
        }

        /// What a command says of one thing that it looks at.
        var verdict: String {
            switch self {
            case .note: "ok"
            case .degraded: "warning"
            case .down: "wrong"
            }
        }

        /// What siwatch is if no finding is worse.
        var health: String { self == .note ? "healthy" : rawValue }
    }
}

extension [Finding] {
    var worst: Finding.Severity { map(\.severity).max() ?? .note }

    static func all(of error: any Error) -> [Finding] { CommandFailure(database: error).messages.map { Finding(.down, $0) } }

    /// - Throws: the exit code of the worst, unless all is well.
    func conclude() throws {
        if worst > .note { throw ExitCode(worst.exitCode) }
    }

    var members: Members { ["health": worst.health, "findings": self] }

    /// A server that is away is the cause of several findings. The first names it.
    var sayingCauseOnce: [Finding] {
        let cause = first?.sentence.split(separator: ": ", maxSplits: 1).last ?? ""
        return enumerated().map { index, finding in
            var finding = finding
            if index > 0 { finding.sentence.replace(": \(cause)", with: ", as above") }
            return finding
        }
    }
}

/// Lists findings one below the other, with conditions around them.
@resultBuilder
enum FindingList {
    static func buildExpression(_ finding: Finding?) -> [Finding] { finding.map { [$0] } ?? [] }
    static func buildExpression(_ findings: [Finding]) -> [Finding] { findings }
    static func buildBlock(_ parts: [Finding]...) -> [Finding] { parts.flatMap(\.self) }
    static func buildOptional(_ part: [Finding]?) -> [Finding] { part ?? [] }
    static func buildEither(first part: [Finding]) -> [Finding] { part }
    static func buildEither(second part: [Finding]) -> [Finding] { part }
}
