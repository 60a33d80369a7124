// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// A status report as a page for a browser. It asks for nothing but itself, and without its script it is read just as well.
struct HTMLPage {
    let text: String

    init(_ report: StatusReport) {
        let sections = PageSections(report)
        let names = sections.named.map { section -> HTML in
            "<li><a id=\"to-\(section.id)\" href=\"#\(section.id)\">\(section.title)</a></li>"
        }
        let content = ([sections.verdict, sections.facts] + sections.named.map(\.section)).joined(separator: "\n")
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
            <title>\(sections.title)</title>
            <style>\(trusted: Self.style)</style>
            </head>
            <body>
            <p id="lost" role="status" aria-live="polite"></p>
            <header>
            <p class="name">siwatch</p>
            <nav aria-label="Sections of this page"><ul>\(names.joined())</ul></nav>
            </header>
            <main>
            \(content)
            </main>
            <script>\(trusted: Self.script)</script>
            </body>
            </html>

            """
        text = page.markup
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
