// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// One fact that an operator should know, and what to do about it.
struct Finding: Codable, Equatable {
    var severity: Severity
    var sentence: String
    /// What to do. Nil if the sentence says it, or if nothing is to be done.
    var remedy: String?
    /// The section of docs/alerts.md.
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

    init(_ severity: Severity, _ sentence: String, remedy: String? = nil, runbook: String? = nil) {
        self.severity = severity
        self.sentence = sentence
        self.remedy = remedy
        self.runbook = runbook
    }

    enum Severity: String, Codable, Comparable, CaseIterable {
        /// Worth knowing, no trouble.
        case note
        /// Something is wrong that can wait for the morning, as a ticket.
        case degraded
        /// Users lose something now, or siwatch does not work: somebody is needed, as for a page.
        case down

        static func < (left: Severity, right: Severity) -> Bool { left.rank < right.rank }

        private var rank: Int { Self.allCases.firstIndex(of: self) ?? 0 }
    }
}

extension [Finding] {
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

/// Whether siwatch does its work, as the worst finding says.
enum Health: String, Encodable, Comparable {
    case healthy, degraded, down

    static func < (left: Health, right: Health) -> Bool { left.exitCode < right.exitCode }

    init(_ findings: [Finding]) {
        switch findings.map(\.severity).max() {
        case nil, .note: self = .healthy
        case .degraded: self = .degraded
        case .down: self = .down
        }
    }

    /// Of `status` and `health`, as Nagios's plugins exit.
    var exitCode: Int32 {
        switch self {
        case .healthy: 0
        case .degraded: 1
        case .down: 2
        }
    }
}
