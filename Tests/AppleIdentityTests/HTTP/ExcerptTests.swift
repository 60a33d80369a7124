// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import AppleIdentity

@Suite struct ExcerptTests {
    @Test(arguments: [
        ("The code has already been used.", "The code has already been used."),
        ("two\r\nlines\u{1b}[31m\u{202e}red\0", "two lines [31m red"),
        ("not issued to " + AppleFixture.user, "not issued to …"),
        ("", ""),
    ])
    func keepsWhatMayBeLogged(_ text: String, _ excerpt: String) {
        #expect(text.excerpt() == excerpt)
    }

    @Test func isBounded() {
        #expect(String(repeating: "words ", count: 10_000).excerpt(limit: 100).count == 100)
    }
}
