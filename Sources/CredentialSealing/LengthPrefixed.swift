// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Bytes to authenticate, made of several fields.
enum LengthPrefixed {
    /// Each field follows its length in four bytes, so that no two lists of fields have the same bytes.
    static func join(_ fields: [[UInt8]]) -> [UInt8] {
        fields.reduce(into: []) { $0 += bigEndian(UInt32($1.count)) + $1 }
    }

    static func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }
}
