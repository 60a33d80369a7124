// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore

/// The fields of an `application/x-www-form-urlencoded` body, decoded.
struct FormBody: Sendable {
    private var fields: [String: String] = [:]

    /// - Throws: `TokenError.invalidRequest` if a name occurs twice, or an escape or its UTF-8 is broken.
    init(_ body: ByteBuffer) throws(TokenError) {
        for pair in body.readableBytesView.split(separator: UInt8(ascii: "&")) {
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(halves[0]), let value = halves.count == 2 ? Self.decode(halves[1]) : "",
                fields.updateValue(value, forKey: name) == nil
            else { throw .invalidRequest }
        }
    }

    /// A field that is present and not empty.
    subscript(name: String) -> String? {
        text(of: name).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// A field that is present, possibly empty.
    func text(of name: String) -> String? { fields[name] }

    private static func decode(_ escaped: ByteBufferView) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(escaped.count)
        var rest = escaped.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "+"):
                bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                guard let high = rest.next().flatMap(hexValue), let low = rest.next().flatMap(hexValue) else { return nil }
                bytes.append(high << 4 | low)
            default:
                bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexValue(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
