// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The `Retry-After` header (RFC 9110, section 10.2.3).
package enum RetryAfter {
    /// The seconds in the header, or the time from now to its date, up to a day. Nil if the header is neither.
    package static func duration(_ header: String?, at now: Timestamp) -> Duration? {
        let words = header?.split { $0 == " " || $0 == "\t" } ?? []
        if words.count == 1, words[0].utf8.allSatisfy(\.isDigit) {
            return Int64(words[0]).map { min(.seconds($0), .days(1)) } ?? .days(1)
        }
        guard let date = HTTPDate.parse(words.joined(separator: " ")) else { return nil }
        return min(max(now.duration(to: date), .zero), .days(1))
    }
}
