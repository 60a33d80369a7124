// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import siwatch

struct HTMLTests {
    @Test func textFromElsewhereIsEscapedEverywhere() {
        let text = "<b a=\"1\" b='2'>&\u{202e}\u{1b}[0m"
        let escaped = "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;\\u{202e}\\u{1b}[0m"
        let html: HTML = "<p title=\"\(text)\">\(text)</p>"
        #expect(html.markup == "<p title=\"\(escaped)\">\(escaped)</p>")
        #expect(!HTML.code(text).markup.contains("<b"))
        #expect(!HTML.table(text, [text: ""], [HTML.Group(name: text, rows: [["\(text)"]])]).markup.contains("<b"))
    }

    @Test func aCourseIsInWordsToo() {
        #expect(HTML.course([1000, 1200, 1100]).markup.contains("from 1,000 to 1,100"))
        #expect(HTML.course([7]).markup == "–")
    }
}
