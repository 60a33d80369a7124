// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

extension String {
    /// The text with every character spelled out that would not show, or would do something to a terminal: what comes from outside may
    /// hold anything.
    var printable: String {
        var text = ""
        for scalar in unicodeScalars {
            if scalar.isSafeOnTerminal { text.unicodeScalars.append(scalar) } else { text += "\\u{\(String(scalar.value, radix: 16))}" }
        }
        return text
    }

    /// The same for bytes, of which those that are no UTF-8 are spelled out too.
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

    /// Padded with spaces, on the left where `width` is negative.
    func padded(to width: Int) -> String {
        let padding = String(repeating: " ", count: max(abs(width) - count, 0))
        return width < 0 ? padding + self : self + padding
    }
}

extension Unicode.Scalar {
    fileprivate var isSafeOnTerminal: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: false
        default: true
        }
    }
}

/// Writes to standard output, or says why that cannot be done: `print` would lose it without a word.
func printOutput(_ text: String) throws(CommandFailure) {
    var bytes = Array((text + "\n").utf8)[...]
    while !bytes.isEmpty {
        let count = bytes.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
        if count < 0 {
            if errno == EINTR { continue }
            throw .failed("the output cannot be written: \(String(cString: strerror(errno)))")
        }
        bytes = bytes.dropFirst(count)
    }
}

/// Prints a report for programs. Within one `schema`, members are added and never changed.
func printJSON(_ report: some Encodable) throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let text = String(decoding: try encoder.encode(report), as: UTF8.self)
    // The encoder leaves alone what is legal in JSON and yet moves a terminal.
    var safe = ""
    for scalar in text.unicodeScalars {
        if scalar == "\n" || scalar.isSafeOnTerminal {
            safe.unicodeScalars.append(scalar)
        } else {
            for unit in String(scalar).utf16 {
                let digits = String(unit, radix: 16)
                safe += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
    }
    try printOutput(safe)
}
