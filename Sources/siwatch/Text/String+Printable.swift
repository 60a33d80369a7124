// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension String {
    /// The text with every character spelled out that is invisible or that a terminal would obey. Text from outside may hold anything.
    var printable: String { spelledOut { $0.isPrintable } }

    /// The same for text of several lines.
    var printableLines: String { spelledOut { $0.isPrintable || $0 == "\n" } }

    private func spelledOut(except isHarmless: (Unicode.Scalar) -> Bool) -> String {
        var text = ""
        for scalar in unicodeScalars {
            if isHarmless(scalar) { text.unicodeScalars.append(scalar) } else { text += "\\u{\(String(scalar.value, radix: 16))}" }
        }
        return text
    }

    /// The same for bytes. Bytes that are not UTF-8 are spelled out too.
    init(printable bytes: some Collection<UInt8>) {
        self = ""
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        while true {
            switch decoder.decode(&iterator) {
            case .scalarValue(let scalar): self += String(scalar).printable
            case .emptyInput: return
            case .error: self += "\u{fffd}"
            }
        }
    }

    /// Padded with spaces; on the left if `width` is negative.
    func padded(to width: Int) -> String {
        let padding = String(repeating: " ", count: max(abs(width) - count, 0))
        return width < 0 ? padding + self : self + padding
    }
}

extension Unicode.Scalar {
    /// Escaped as in a JSON string: a surrogate pair if one code unit does not hold it.
    var jsonEscape: String { utf16.map { "\\u\($0.hexadecimal)" }.joined() }
}
