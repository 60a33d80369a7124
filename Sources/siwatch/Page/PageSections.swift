// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// The sections of the page, in the order in which an operator needs them.
struct PageSections {
    let report: StatusReport
    let findings: [Finding]
    var now: Timestamp { report.at }
    var daemon: DaemonReport? { report.daemon }

    struct Named {
        var id: String
        var title: String
        var content: HTML

        var section: HTML { .section(id, title, content) }
    }

    init(_ report: StatusReport) {
        self.report = report
        findings = report.findings
    }

    var named: [Named] {
        [
            Named(id: "backends", title: "Backends", content: backends),
            Named(id: "apple", title: "Apple", content: apple),
            Named(id: "queues", title: "Queues", content: queues),
            Named(id: "users", title: "Users", content: users),
            Named(id: "notifications", title: "Notifications", content: notifications),
            Named(id: "proofs", title: "Proofs, clock, keys, backup", content: proofs),
            Named(id: "process", title: "Process", content: process),
            Named(id: "warnings", title: "Warnings", content: warnings),
        ]
    }

    // MARK: The verdict

    var title: String {
        let host = daemon?.host ?? ""
        guard let worst else { return "All is well – siwatch on \(host)" }
        return "\(worst.severity): \(worst.sentence.prefix(80)) – siwatch on \(host)"
    }

    /// Nil if there is no trouble.
    private var worst: Finding? { findings.first { $0.severity > .note } }

    var verdict: HTML {
        let severity = worst?.severity ?? .note
        let asOf: HTML = """
            <p class="asof">As of <time id="at" datetime="\(now.text)">\(now.text.dropFirst(11).prefix(8).description)</time> UTC on \
            \(now.text.prefix(10).description). All times on this page are UTC.</p>
            """
        let body: HTML
        if let worst {
            let remedy = worst.remedy.map { "<p>\($0)</p>\n" as HTML } ?? ""
            body = "<h1 id=\"verdict\">\(worst.sentence)</h1>\n\(remedy)\(runbook(of: worst))"
        } else {
            body = "<h1 id=\"verdict\">All is well.</h1>\n<p>Backends can insert, siwatch works, and nothing is late.</p>"
        }
        let word: HTML = worst == nil ? "" : "<span>\(severity.rawValue)</span>"
        return """
            <section class="verdict \(severity.tone)" aria-labelledby="verdict">
            <p><svg width="24" height="24" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">\
            \(Self.icon(of: severity))</svg>\(word)</p>
            <div>
            \(body)
            \(asOf)
            </div>
            </section>
            """
    }

    private static func icon(of severity: Finding.Severity) -> HTML {
        switch severity {
        case .note: "<circle cx=\"12\" cy=\"12\" r=\"10\"/><path d=\"M7.5 12.5l3 3 6-7\"/>"
        case .degraded: "<path d=\"M12 2.5L22.5 21h-21z\"/><path d=\"M12 9.5v5.5M12 17.5v.6\"/>"
        case .down: "<path d=\"M7.9 2h8.2L22 7.9v8.2L16.1 22H7.9L2 16.1V7.9z\"/><path d=\"M12 7v6.5M12 16.5v.6\"/>"
        }
    }

    /// All findings but the one in the verdict.
    var facts: HTML {
        let others = findings.dropFirst(worst == nil ? 0 : 1)
        guard !others.isEmpty else { return "" }
        let items = others.map { finding -> HTML in
            let remedy = finding.remedy.map { "<p>\($0)</p>" as HTML } ?? ""
            let mark: HTML = finding.severity == .note ? "<span class=\"muted\">note</span>" : .mark(finding.severity)
            return "<li>\(mark)<div><p>\(finding.sentence)</p>\(remedy)\(runbook(of: finding))</div></li>"
        }
        return .section("facts", "Further facts", "<ul class=\"facts\">\n\(items.joined(separator: "\n"))\n</ul>")
    }

    private func runbook(of finding: Finding) -> HTML {
        finding.runbook.map { "<p class=\"runbook\">Runbook: \(HTML.code(Finding.page(ofRunbook: $0)))</p>" } ?? ""
    }

    // MARK: Times

    /// The time of day, with the date if it is another day's.
    func time(_ time: Timestamp) -> HTML {
        let (text, today) = (time.text, now.text)
        let isToday = text.prefix(10) == today.prefix(10)
        let shown = isToday ? "\(text.dropFirst(11).prefix(8))" : "\(text.prefix(10)) \(text.dropFirst(11).prefix(5))"
        return "<time datetime=\"\(text)\">\(shown)</time>"
    }

    /// In a table.
    func ago(_ moment: Timestamp) -> HTML {
        "\(time(moment)) <span class=\"ago\">\(moment.duration(to: now).text) ago</span>"
    }

    /// In a sentence.
    func told(_ moment: Timestamp) -> HTML {
        "\(time(moment)), \(moment.duration(to: now).text) ago"
    }
}
