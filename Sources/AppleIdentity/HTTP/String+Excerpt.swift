// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension String {
    /// A piece of somebody else's text that may stand in a log line or in the quarantine.
    ///
    /// Control and format characters become spaces, and a word of 40 characters or more, or with an @, becomes "…": a refresh token has about 64,
    /// a `sub` 44, a signed token hundreds.
    func excerpt(limit: Int = 160) -> String {
        let printable = String(String.UnicodeScalarView(unicodeScalars.map { $0.isPrintable ? $0 : " " }))
        let words = printable.split(separator: " ").map { $0.unicodeScalars.count < 40 && !$0.contains("@") ? $0 : "…" }
        return String(words.joined(separator: " ").prefix(limit))
    }
}
