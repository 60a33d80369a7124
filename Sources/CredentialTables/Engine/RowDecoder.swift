// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Decodes a row into a value, by the column names. The column `client_id` is the member `clientID`.
struct RowDecoder<Row: FetchedRow>: Decoder {
    let row: Row
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(Columns(row: row))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw Self.unsupported }

    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw Self.unsupported }

    fileprivate static var unsupported: DecodingError {
        .dataCorrupted(DecodingError.Context(codingPath: [], debugDescription: "a row has columns and nothing else"))
    }

    private struct Columns<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let row: Row
        let codingPath: [any CodingKey] = []
        let allKeys: [Key] = []

        func contains(_ key: Key) -> Bool { row.index(of: key) != nil }

        func decodeNil(forKey key: Key) throws -> Bool { row.isNull(at: try index(key)) }

        func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { row.bool(at: try column(key)) }

        func decode(_ type: String.Type, forKey key: Key) throws -> String { row.text(at: try column(key)) ?? "" }

        func decode(_ type: Int.Type, forKey key: Key) throws -> Int { row.int(at: try column(key)) }

        func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { row.integer(at: try column(key)) }

        func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
            guard let value = Timestamp(milliseconds: row.integer(at: try column(key))) as? Value else { throw unsupported }
            return value
        }

        private func index(_ key: Key) throws -> Int {
            if let index = row.index(of: key) { return index }
            throw DecodingError.keyNotFound(key, DecodingError.Context(codingPath: [], debugDescription: "no column has this name"))
        }

        private func column(_ key: Key) throws -> Int {
            let index = try index(key)
            if !row.isNull(at: index) { return index }
            throw DecodingError.valueNotFound(Key.self, DecodingError.Context(codingPath: [key], debugDescription: "the column is NULL"))
        }

        // MARK: Types that no table has

        func decode(_ type: Double.Type, forKey key: Key) throws -> Double { throw unsupported }
        func decode(_ type: Float.Type, forKey key: Key) throws -> Float { throw unsupported }
        func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { throw unsupported }
        func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { throw unsupported }
        func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { throw unsupported }
        func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { throw unsupported }
        func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { throw unsupported }
        func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { throw unsupported }
        func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { throw unsupported }
        func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { throw unsupported }

        func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
            throw unsupported
        }

        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw unsupported }
        func superDecoder() throws -> any Decoder { throw unsupported }
        func superDecoder(forKey key: Key) throws -> any Decoder { throw unsupported }

        private var unsupported: DecodingError { RowDecoder.unsupported }
    }
}

extension FetchedRow {
    fileprivate func index(of key: some CodingKey) -> Int? {
        var column: [UInt8] = []
        var isInWord = false
        for letter in key.stringValue.utf8 {
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(letter)
            if isCapital, isInWord { column.append(UInt8(ascii: "_")) }
            column.append(isCapital ? letter | 0x20 : letter)
            isInWord = !isCapital
        }
        return index(of: String(decoding: column, as: UTF8.self)) ?? index(of: key.stringValue)
    }
}
