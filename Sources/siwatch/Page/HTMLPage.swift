// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import Logging

/// A status report as a page for a browser. It asks for nothing but itself, and without its script it is read just as well.
struct HTMLPage {
    let text: String

    init(_ report: StatusReport) {
        let findings = report.findings
        let worst = findings.first { $0.severity > .note }
        let (health, now) = (findings.worst.health, report.at.text)
        let sentence = worst?.sentence ?? "All is well."
        let advice = worst == nil ? "Backends can insert, siwatch works, and nothing is late." : worst?.advice ?? ""
        let others = findings.dropFirst(worst == nil ? 0 : 1).map { finding -> StatusSection.Row in
            (finding.severity.rawValue, finding.sentence + (finding.advice.map { " – \($0)" } ?? ""))
        }
        let warnings = (report.daemon?.warnings ?? []).reversed().map { line -> StatusSection.Row in
            let fields = line.shownFields.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
            return ("\(line.at.text) \(line.level.rawValue)", "\(line.message) event=\(line.name)\(fields)")
        }
        let (above, below) = (StatusSection(title: "further facts", rows: others), StatusSection(title: "warnings", rows: warnings))
        let sections = ([above] + report.sections + [below]).filter { !$0.rows.isEmpty }
        let page: HTML = """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="light dark">
            <meta name="robots" content="noindex">
            <meta name="referrer" content="no-referrer">
            <link rel="icon" href="data:,">
            <title>\(health): \(String(sentence.prefix(80))) – siwatch on \(report.daemon?.host ?? "")</title>
            <style>\(trusted: Self.style)</style>
            </head>
            <body>
            <p id="lost" role="status" aria-live="polite"></p>
            <main>
            <section class="verdict \(health)" aria-labelledby="verdict">
            <p>\(health)</p>
            <h1 id="verdict">\(sentence)</h1>
            <p>\(advice)</p>
            <p>siwatch \(report.version) on \(report.database), as of <time id="at" datetime="\(now)">\(now)</time></p>
            </section>
            \(sections.enumerated().map { Self.html($1, id: "section-\($0)") })
            </main>
            <script>\(trusted: Self.script)</script>
            </body>
            </html>

            """
        text = page.markup
    }

    private static func html(_ section: StatusSection, id: String) -> HTML {
        let rows = section.rows.map { row -> HTML in "<div><dt>\(row.name)</dt><dd>\(row.value)</dd></div>" }
        return """
            <section aria-labelledby="\(id)">
            <h2 id="\(id)">\(section.title)</h2>
            <dl>
            \(rows)
            </dl>
            </section>
            """
    }

    /// Forbids everything but this style, this script and questions to the same server.
    static let policy = """
        default-src 'none'; style-src '\(hash(style))'; script-src '\(hash(script))'; connect-src 'self'; img-src data:; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """

    private static func hash(_ text: StaticString) -> String {
        "sha256-" + Data(SHA256.hash(data: Data("\(text)".utf8))).base64EncodedString()
    }
}
