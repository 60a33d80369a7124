// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension String {
    /// The text with every character spelled out that is invisible or that a terminal would obey. Text from outside may hold anything.
    var printable: String { escaped { $0.isPrintable ? nil : $0.spelledOut } }

    /// The same for text of several lines.
    var printableLines: String { escaped { $0.isPrintable || $0 == "\n" ? nil : $0.spelledOut } }

    /// - Parameter escape: what stands in the place of a character; nil if the character itself stands there.
    func escaped(by escape: (Unicode.Scalar) -> String?) -> String {
        unicodeScalars.reduce(into: "") { text, scalar in
            if let escape = escape(scalar) { text += escape } else { text.unicodeScalars.append(scalar) }
        }
    }

    /// Padded with spaces; on the left if `width` is negative.
    func padded(to width: Int) -> String {
        let padding = String(repeating: " ", count: max(abs(width) - count, 0))
        return width < 0 ? padding + self : self + padding
    }
}

extension Unicode.Scalar {
    fileprivate var spelledOut: String { "\\u{\(String(value, radix: 16))}" }

    /// Escaped as in a JSON string: a surrogate pair if one code unit does not hold it.
    var jsonEscape: String { utf16.map { "\\u\($0.hexadecimal)" }.joined() }
}
