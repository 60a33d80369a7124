// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A JSON value as it came over the wire.
enum JSON: Sendable, Equatable {
    case null
    case bool(Bool)
    /// Written without fraction or exponent, and within 64 bits.
    case integer(Int64)
    /// Any other number; always finite.
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    /// How deep arrays and objects may nest. Apple's own nest three deep.
    static let deepest = 16

    /// Reads one value and nothing after it, strictly by RFC 8259 and in UTF-8. Nil for anything else.
    ///
    /// Foundation's decoder silently keeps one of two members of the same name. Two readers that keep different ones disagree about what
    /// was signed, so siwatch refuses a duplicate. Canonically equivalent names are duplicates too.
    init?(_ bytes: [UInt8]) {
        var reader = JSONReader(bytes: bytes)
        guard let value = try? reader.value(depth: 0), reader.isAtEnd else { return nil }
        self = value
    }

    var object: [String: JSON]? { if case .object(let members) = self { members } else { nil } }

    var array: [JSON]? { if case .array(let elements) = self { elements } else { nil } }

    var string: String? { if case .string(let text) = self { text } else { nil } }

    var nonEmptyString: String? { string.flatMap { $0.isEmpty ? nil : $0 } }
}

private struct Malformed: Error {}

/// A cursor over the bytes of one document.
private struct JSONReader {
    let bytes: [UInt8]
    var index = 0

    var isAtEnd: Bool { index == bytes.count }

    /// Reads a value and the white space around it.
    mutating func value(depth: Int) throws(Malformed) -> JSON {
        skipWhiteSpace()
        defer { skipWhiteSpace() }
        switch peek {
        case UInt8(ascii: "{"): return .object(try members(depth: depth + 1))
        case UInt8(ascii: "["): return .array(try elements(depth: depth + 1))
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        default: return try number()
        }
    }

    private mutating func members(depth: Int) throws(Malformed) -> [String: JSON] {
        var members: [String: JSON] = [:]
        guard try begins(endingWith: UInt8(ascii: "}"), depth: depth) else { return members }
        repeat {
            skipWhiteSpace()
            let name = try string()
            skipWhiteSpace()
            try expect(UInt8(ascii: ":"))
            guard members.updateValue(try value(depth: depth), forKey: name) == nil else { throw Malformed() }
        } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "}"))
        return members
    }

    private mutating func elements(depth: Int) throws(Malformed) -> [JSON] {
        var elements: [JSON] = []
        guard try begins(endingWith: UInt8(ascii: "]"), depth: depth) else { return elements }
        repeat {
            elements.append(try value(depth: depth))
        } while take(UInt8(ascii: ","))
        try expect(UInt8(ascii: "]"))
        return elements
    }

    /// Takes an opening bracket. False if the closing one follows at once.
    private mutating func begins(endingWith end: UInt8, depth: Int) throws(Malformed) -> Bool {
        guard depth <= JSON.deepest else { throw Malformed() }
        index += 1
        skipWhiteSpace()
        return !take(end)
    }

    private mutating func literal(_ word: StaticString, _ value: JSON) throws(Malformed) -> JSON {
        for offset in 0..<word.utf8CodeUnitCount { try expect(word.utf8Start[offset]) }
        return value
    }

    private mutating func number() throws(Malformed) -> JSON {
        let start = index
        _ = take(UInt8(ascii: "-"))
        let firstDigit = index
        try skipDigits()
        let end = index
        guard end - firstDigit == 1 || bytes[firstDigit] != UInt8(ascii: "0") else { throw Malformed() }
        if take(UInt8(ascii: ".")) { try skipDigits() }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try skipDigits()
        }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        if index == end, let integer = Int64(text) { return .integer(integer) }
        guard let number = Double(text), number.isFinite else { throw Malformed() }
        return .number(number)
    }

    /// Skips one digit or more.
    private mutating func skipDigits() throws(Malformed) {
        let start = index
        while let byte = peek, byte.isDigit { index += 1 }
        guard index > start else { throw Malformed() }
    }

    // MARK: Strings

    private mutating func string() throws(Malformed) -> String {
        try expect(UInt8(ascii: "\""))
        let start = index
        while let byte = peek, byte != UInt8(ascii: "\\"), byte >= 0x20 {
            if byte == UInt8(ascii: "\"") {
                defer { index += 1 }
                return try text(bytes[start..<index])
            }
            index += 1
        }
        return try escapedString(from: start)
    }

    /// Reads the rest of a string, from its first byte that needs attention.
    private mutating func escapedString(from start: Int) throws(Malformed) -> String {
        var unescaped = Array(bytes[start..<index])
        while let byte = peek, byte >= 0x20 {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return try text(unescaped[...])
            case UInt8(ascii: "\\"): try appendEscape(to: &unescaped)
            default: unescaped.append(byte)
            }
        }
        throw Malformed()
    }

    private mutating func appendEscape(to unescaped: inout [UInt8]) throws(Malformed) {
        guard let byte = peek else { throw Malformed() }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(byte)
        case UInt8(ascii: "b"): unescaped.append(0x08)
        case UInt8(ascii: "f"): unescaped.append(0x0c)
        case UInt8(ascii: "n"): unescaped.append(0x0a)
        case UInt8(ascii: "r"): unescaped.append(0x0d)
        case UInt8(ascii: "t"): unescaped.append(0x09)
        case UInt8(ascii: "u"): unescaped.append(contentsOf: String(try escapedScalar()).utf8)
        default: throw Malformed()
        }
    }

    private mutating func escapedScalar() throws(Malformed) -> Unicode.Scalar {
        let unit = try codeUnit()
        if let scalar = Unicode.Scalar(unit) { return scalar }
        guard UTF16.isLeadSurrogate(unit), take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw Malformed() }
        let trail = try codeUnit()
        guard UTF16.isTrailSurrogate(trail) else { throw Malformed() }
        return Unicode.Scalar(0x1_0000 + (UInt32(unit & 0x3ff) << 10 | UInt32(trail & 0x3ff)))!
    }

    private mutating func codeUnit() throws(Malformed) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { throw Malformed() }
            unit = unit << 4 | UInt16(digit)
            index += 1
        }
        return unit
    }

    private func text(_ slice: ArraySlice<UInt8>) throws(Malformed) -> String {
        guard let text = String(validating: slice, as: UTF8.self) else { throw Malformed() }
        return text
    }

    // MARK: Bytes

    private var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        index += 1
        return true
    }

    private mutating func expect(_ byte: UInt8) throws(Malformed) {
        guard take(byte) else { throw Malformed() }
    }

    private mutating func skipWhiteSpace() {
        while let byte = peek, byte.isJSONWhiteSpace { index += 1 }
    }
}

extension UInt8 {
    /// Space, tab, line feed, carriage return.
    var isJSONWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0a || self == 0x0d }
}
