// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Rows of a table on their way from one store to another.
///
/// The bytes are PostgreSQL's binary COPY. A row begins with the number of its values in two bytes. A value has its length in four bytes,
/// or -1 for NULL, and then its bytes. Numbers are big-endian. So the stores pass the bytes on unchanged, equal rows of any store have
/// equal bytes, and a digest of them is a digest of the contents.
package struct StoredRows: Sendable {
    package private(set) var bytes: [UInt8] = []
    package private(set) var count = 0

    package init() {}

    /// The approximate size of one portion, in bytes.
    package static let portion = 1 << 18

    package var isFull: Bool { bytes.count >= Self.portion }

    // MARK: Writing

    /// Appends an encoded row.
    package mutating func append(row: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: row)
        count += 1
    }

    /// Begins a row. The same number of values must follow.
    package mutating func beginRow(of columns: Int) {
        append(number: Int16(columns))
        count += 1
    }

    package mutating func appendNull() {
        append(number: Int32(-1))
    }

    /// - Returns: false if the number does not fit. Then it appends nothing.
    package mutating func append(_ number: Int64, bytes width: Int) -> Bool {
        switch width {
        case 8: append(value: number)
        case 4: Int32(exactly: number).map { append(value: $0) } != nil
        case 2: Int16(exactly: number).map { append(value: $0) } != nil
        default: number == 0 || number == 1 ? append(value: UInt8(number)) : false
        }
    }

    package mutating func append(_ value: UnsafeRawBufferPointer) {
        append(number: Int32(value.count))
        bytes.append(contentsOf: value)
    }

    @discardableResult
    private mutating func append<Number: FixedWidthInteger>(value: Number) -> Bool {
        append(number: Int32(MemoryLayout<Number>.size))
        append(number: value)
        return true
    }

    private mutating func append(number: some FixedWidthInteger) {
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
    }

    // MARK: Reading

    /// The values of one row.
    package struct Row {
        fileprivate let bytes: UnsafeRawBufferPointer
        /// The place of each value; nil for NULL.
        fileprivate let places: [Range<Int>?]

        package subscript(column: Int) -> UnsafeRawBufferPointer? {
            places[column].map { UnsafeRawBufferPointer(rebasing: bytes[$0]) }
        }

        /// An integer of any width; nil for NULL.
        package func integer(at column: Int) -> Int64? {
            guard let value = self[column], let first = value.first else { return nil }
            // One byte is a BOOLEAN, without a sign.
            return value.dropFirst().reduce(Int64(Int8(bitPattern: first))) { $0 << 8 | Int64($1) }
        }

        package func text(at column: Int) -> String? {
            self[column].map { String(decoding: $0, as: UTF8.self) }
        }
    }

    package func forEachRow(_ body: (Row) throws -> Void) rethrows {
        try bytes.withUnsafeBytes { bytes in
            var place = 0
            func number<Number: FixedWidthInteger>(_: Number.Type) -> Int {
                defer { place += MemoryLayout<Number>.size }
                return Int(Number(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: Number.self)))
            }
            var places: [Range<Int>?] = []
            while place < bytes.count {
                places.removeAll(keepingCapacity: true)
                for _ in 0..<number(Int16.self) {
                    let length = number(Int32.self)
                    places.append(length < 0 ? nil : place..<place + length)
                    place += max(length, 0)
                }
                try body(Row(bytes: bytes, places: places))
            }
        }
    }
}
