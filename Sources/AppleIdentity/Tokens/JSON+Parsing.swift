// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Why siwatch does not accept bytes as JSON.
enum JSONError: Error, Equatable {
    /// The bytes break the grammar of RFC 8259 at this byte.
    case syntax(at: Int)
    /// A string that is not UTF-8, or half of a surrogate pair.
    case encoding(at: Int)
    /// One object has two members of the same name.
    case duplicateName(at: Int)
    /// Nested deeper than `JSON.deepest`.
    case depth(at: Int)
}

extension JSON {
    /// How deep arrays and objects may nest. Apple's own nest three deep.
    static let deepest = 16

    /// Reads one value and nothing after it, strictly by RFC 8259.
    ///
    /// Foundation's decoder silently keeps one of two members of the same name. Two readers that keep different ones disagree about what
    /// was signed, so a duplicate is an error here. Canonically equivalent names are duplicates too.
    init(_ bytes: [UInt8]) throws(JSONError) {
        var reader = JSONReader(bytes)
        self = try reader.document()
    }
}

/// A cursor over the bytes of one document.
private struct JSONReader {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    mutating func document() throws(JSONError) -> JSON {
        skipWhiteSpace()
        let value = try value(depth: 0)
        skipWhiteSpace()
        guard index == bytes.count else { throw .syntax(at: index) }
        return value
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSON {
        switch peek {
        case UInt8(ascii: "{"): return try object(depth: depth + 1)
        case UInt8(ascii: "["): return try array(depth: depth + 1)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        default: return try number()
        }
    }

    // MARK: Structures

    private mutating func object(depth: Int) throws(JSONError) -> JSON {
        guard depth <= JSON.deepest else { throw .depth(at: index) }
        index += 1
        skipWhiteSpace()
        var members: [String: JSON] = [:]
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            let start = index
            let name = try string()
            skipWhiteSpace()
            try expect(UInt8(ascii: ":"))
            skipWhiteSpace()
            let member = try value(depth: depth)
            guard members.updateValue(member, forKey: name) == nil else { throw .duplicateName(at: start) }
            skipWhiteSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            try expect(UInt8(ascii: ","))
            skipWhiteSpace()
        }
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSON {
        guard depth <= JSON.deepest else { throw .depth(at: index) }
        index += 1
        skipWhiteSpace()
        var elements: [JSON] = []
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            elements.append(try value(depth: depth))
            skipWhiteSpace()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            try expect(UInt8(ascii: ","))
            skipWhiteSpace()
        }
    }

    private mutating func literal(_ word: StaticString, _ value: JSON) throws(JSONError) -> JSON {
        for offset in 0..<word.utf8CodeUnitCount {
            try expect(word.utf8Start[offset])
        }
        return value
    }

    // MARK: Numbers

    private mutating func number() throws(JSONError) -> JSON {
        let start = index
        let isNegative = take(UInt8(ascii: "-"))
        let firstDigit = index
        var integer: Int64? = 0
        while let digit = digit() {
            integer = integer.flatMap { Self.append(digit, to: $0, isNegative: isNegative) }
        }
        let digits = index - firstDigit
        guard digits > 0, digits == 1 || bytes[firstDigit] != UInt8(ascii: "0") else { throw .syntax(at: firstDigit) }
        var isIntegral = true
        if take(UInt8(ascii: ".")) {
            isIntegral = false
            try skipDigits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isIntegral = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try skipDigits()
        }
        if isIntegral, let integer { return .integer(integer) }
        guard let number = Double(String(decoding: bytes[start..<index], as: UTF8.self)), number.isFinite else {
            throw .syntax(at: start)
        }
        return .number(number)
    }

    private static func append(_ digit: UInt8, to value: Int64, isNegative: Bool) -> Int64? {
        let (scaled, overflow) = value.multipliedReportingOverflow(by: 10)
        let step = isNegative ? -Int64(digit) : Int64(digit)
        let (sum, carry) = scaled.addingReportingOverflow(step)
        return overflow || carry ? nil : sum
    }

    private mutating func digit() -> UInt8? {
        guard let byte = peek, byte.isDigit else { return nil }
        index += 1
        return byte - UInt8(ascii: "0")
    }

    private mutating func skipDigits() throws(JSONError) {
        guard digit() != nil else { throw .syntax(at: index) }
        while digit() != nil {}
    }

    // MARK: Strings

    private mutating func string() throws(JSONError) -> String {
        try expect(UInt8(ascii: "\""))
        let start = index
        while let byte = peek, byte != UInt8(ascii: "\\"), byte >= 0x20 {
            if byte == UInt8(ascii: "\"") {
                defer { index += 1 }
                return try text(bytes[start..<index], at: start)
            }
            index += 1
        }
        return try escapedString(from: start)
    }

    /// Reads the rest of a string, from its first byte that needs attention.
    private mutating func escapedString(from start: Int) throws(JSONError) -> String {
        var unescaped = Array(bytes[start..<index])
        while let byte = peek, byte >= 0x20 {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return try text(unescaped[...], at: start)
            case UInt8(ascii: "\\"): try appendEscape(to: &unescaped)
            default: unescaped.append(byte)
            }
        }
        throw .syntax(at: index)
    }

    private mutating func appendEscape(to unescaped: inout [UInt8]) throws(JSONError) {
        guard let byte = peek else { throw .syntax(at: index) }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(byte)
        case UInt8(ascii: "b"): unescaped.append(0x08)
        case UInt8(ascii: "f"): unescaped.append(0x0c)
        case UInt8(ascii: "n"): unescaped.append(0x0a)
        case UInt8(ascii: "r"): unescaped.append(0x0d)
        case UInt8(ascii: "t"): unescaped.append(0x09)
        case UInt8(ascii: "u"): unescaped.append(contentsOf: String(try escapedScalar()).utf8)
        default: throw .syntax(at: index - 1)
        }
    }

    private mutating func escapedScalar() throws(JSONError) -> Unicode.Scalar {
        let start = index
        let unit = try codeUnit()
        if let scalar = Unicode.Scalar(unit) { return scalar }
        guard UTF16.isLeadSurrogate(unit), take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else { throw .encoding(at: start) }
        let trail = try codeUnit()
        guard UTF16.isTrailSurrogate(trail) else { throw .encoding(at: start) }
        return Unicode.Scalar(0x1_0000 + (UInt32(unit & 0x3ff) << 10 | UInt32(trail & 0x3ff)))!
    }

    private mutating func codeUnit() throws(JSONError) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { throw .syntax(at: index) }
            unit = unit << 4 | UInt16(digit)
            index += 1
        }
        return unit
    }

    private func text(_ slice: ArraySlice<UInt8>, at start: Int) throws(JSONError) -> String {
        guard let text = String(validating: slice, as: UTF8.self) else { throw .encoding(at: start) }
        return text
    }

    // MARK: Bytes

    private var peek: UInt8? {
        index < bytes.count ? bytes[index] : nil
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        index += 1
        return true
    }

    private mutating func expect(_ byte: UInt8) throws(JSONError) {
        guard take(byte) else { throw .syntax(at: index) }
    }

    private mutating func skipWhiteSpace() {
        while let byte = peek, byte.isJSONWhiteSpace { index += 1 }
    }
}

extension UInt8 {
    /// Space, tab, line feed, carriage return.
    var isJSONWhiteSpace: Bool {
        self == 0x20 || self == 0x09 || self == 0x0a || self == 0x0d
    }
}
