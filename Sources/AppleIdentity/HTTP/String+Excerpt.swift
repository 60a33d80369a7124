// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension String {
    /// Makes foreign text safe for a log line or the quarantine.
    ///
    /// Control and format characters become spaces. A word of 40 characters or more, or with an @, becomes "…", because a refresh token has
    /// about 64, a `sub` 44, and a signed token hundreds.
    func excerpt(limit: Int = 160) -> String {
        let printable = String(String.UnicodeScalarView(unicodeScalars.map { $0.isPrintable ? $0 : " " }))
        let words = printable.split(separator: " ").map { $0.unicodeScalars.count < 40 && !$0.contains("@") ? $0 : "…" }
        return String(words.joined(separator: " ").prefix(limit))
    }
}
