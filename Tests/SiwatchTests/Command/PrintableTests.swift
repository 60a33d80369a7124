// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Testing

@testable import siwatch

/// Names that backends and operators chose may hold anything. A terminal obeys none of it.
struct PrintableTests {
    @Test(
        arguments: [
            ("two\nlines\n", "two\nlines\n"), ("a\u{1b}[2J\nb", "a\\u{1b}[2J\nb"), ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}x\u{2028}", "\\u{202e}x\\u{2028}"),
            ("▏é日", "▏é日"), ("\r\n", "\\u{d}\n"),
        ]
    )
    func whatControlsATerminalIsSpelledOut(text: String, printed: String) {
        #expect(text.printableLines == printed)
    }

    /// The name of the database comes from the configuration, and stands in many sentences.
    @Test func noCommandPrintsItRaw() async throws {
        try await Site.with { site in
            try site.folder.edit("siwatch.sqlite\"", "si\u{9b}31mwatch.sqlite\"")
            for command in ["doctor --before-start", "status", "migrate"] {
                let (_, output) = try await site.folder.siwatch(line: command)
                #expect(!output.joined().unicodeScalars.contains("\u{9b}"), "\(command): \(output)")
            }
        }
    }
}
