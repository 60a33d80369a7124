// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A value as PostgreSQL's binary format has it.
struct Parameter {
    /// Of `pg_type`.
    var type: UInt32
    /// Nil for NULL.
    var bytes: [UInt8]?
}

/// What can stand for a parameter of a statement.
protocol BindableValue {
    /// The type, and that of an array of it, in `pg_type`: they never change.
    static var type: UInt32 { get }
    static var arrayType: UInt32 { get }

    /// Nil for NULL.
    func encode(into bytes: inout [UInt8]) -> Void?
}

extension BindableValue {
    var parameter: Parameter {
        var bytes: [UInt8] = []
        return Parameter(type: Self.type, bytes: encode(into: &bytes).map { bytes })
    }
}

extension Int64: BindableValue {
    static var type: UInt32 { 20 }
    static var arrayType: UInt32 { 1016 }

    func encode(into bytes: inout [UInt8]) -> Void? { bytes.append(bigEndian: self) }
}

extension Int: BindableValue {
    static var type: UInt32 { Int64.type }
    static var arrayType: UInt32 { Int64.arrayType }

    func encode(into bytes: inout [UInt8]) -> Void? { Int64(self).encode(into: &bytes) }
}

extension Timestamp: BindableValue {
    static var type: UInt32 { Int64.type }
    static var arrayType: UInt32 { Int64.arrayType }

    func encode(into bytes: inout [UInt8]) -> Void? { milliseconds.encode(into: &bytes) }
}

extension Duration: BindableValue {
    static var type: UInt32 { Int64.type }
    static var arrayType: UInt32 { Int64.arrayType }

    func encode(into bytes: inout [UInt8]) -> Void? { milliseconds.encode(into: &bytes) }
}

extension Bool: BindableValue {
    static var type: UInt32 { 16 }
    static var arrayType: UInt32 { 1000 }

    func encode(into bytes: inout [UInt8]) -> Void? { bytes.append(self ? 1 : 0) }
}

extension String: BindableValue {
    static var type: UInt32 { 25 }
    static var arrayType: UInt32 { 1009 }

    func encode(into bytes: inout [UInt8]) -> Void? { bytes.append(contentsOf: utf8) }
}

extension Array: BindableValue where Element == UInt8 {
    static var type: UInt32 { 17 }
    static var arrayType: UInt32 { 1001 }

    func encode(into bytes: inout [UInt8]) -> Void? { bytes.append(contentsOf: self) }
}

extension Optional: BindableValue where Wrapped: BindableValue {
    static var type: UInt32 { Wrapped.type }
    static var arrayType: UInt32 { Wrapped.arrayType }

    func encode(into bytes: inout [UInt8]) -> Void? { self?.encode(into: &bytes) }
}

/// Values of many rows, for UNNEST: an array for each column.
struct RowArrays {
    private struct Column {
        var element: UInt32
        var array: UInt32
        var bytes: [UInt8] = []

        mutating func append(_ value: some BindableValue) {
            let start = bytes.count
            bytes.append(bigEndian: Int32(-1))
            guard value.encode(into: &bytes) != nil else { return }
            let length = Int32(bytes.count - start - 4)
            withUnsafeBytes(of: length.bigEndian) { for (offset, byte) in $0.enumerated() { bytes[start + offset] = byte } }
        }
    }

    private var columns: [Column] = []
    private(set) var count = 0

    /// A row; all have the same types.
    mutating func append<each Value: BindableValue>(_ values: repeat each Value) {
        if count == 0 {
            for value in repeat each values { columns.append(Column(element: type(of: value).type, array: type(of: value).arrayType)) }
        }
        var index = 0
        for value in repeat each values {
            columns[index].append(value)
            index += 1
        }
        count += 1
    }

    /// As PostgreSQL's `array_recv` reads them: dimensions, whether there may be NULLs, type, length, lower bound, elements.
    var parameters: [Parameter] {
        columns.map { column in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(20 + column.bytes.count)
            for number in [1, 1, Int32(bitPattern: column.element), Int32(count), 1] { bytes.append(bigEndian: number) }
            return Parameter(type: column.array, bytes: bytes + column.bytes)
        }
    }
}

/// One column of many rows.
struct ArrayOf<Element: BindableValue>: BindableValue {
    var elements: [Element]

    init(_ elements: some Sequence<Element>) {
        self.elements = Array(elements)
    }

    static var type: UInt32 { Element.arrayType }
    static var arrayType: UInt32 { preconditionFailure("an array of arrays") }

    func encode(into bytes: inout [UInt8]) -> Void? {
        // PostgreSQL's array of no elements has no dimension; one of no elements would be refused.
        if elements.isEmpty { return [Int32(0), 0, Int32(bitPattern: Element.type)].forEach { bytes.append(bigEndian: $0) } }
        var rows = RowArrays()
        for element in elements { rows.append(element) }
        return bytes.append(contentsOf: rows.parameters[0].bytes ?? [])
    }
}

extension [UInt8] {
    fileprivate mutating func append(bigEndian value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.bigEndian) { append(contentsOf: $0) }
    }
}
