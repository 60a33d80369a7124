// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Decodes a row into a value, by the column names. The column `client_id` is the member `clientID`.
struct RowDecoder<Row: FetchedRow>: Decoder {
    let row: Row
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> { KeyedDecodingContainer(Columns(row: row)) }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw unsupported }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw unsupported }

    private struct Columns<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let row: Row
        let codingPath: [any CodingKey] = []
        let allKeys: [Key] = []

        func contains(_ key: Key) -> Bool { row.index(of: key) != nil }
        func decodeNil(forKey key: Key) throws -> Bool { row.isNull(at: try index(key)) }

        func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
            let index = try index(key)
            guard !row.isNull(at: index) else {
                let context = DecodingError.Context(codingPath: [key], debugDescription: "the column is NULL")
                throw DecodingError.valueNotFound(type, context)
            }
            guard let column = type as? any BindableValue.Type, let value = column.init(row, at: index) as? Value else { throw unsupported }
            return value
        }

        private func index(_ key: Key) throws -> Int {
            if let index = row.index(of: key) { return index }
            throw DecodingError.keyNotFound(key, DecodingError.Context(codingPath: [], debugDescription: "no column has this name"))
        }

        func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws -> KeyedDecodingContainer<Nested> {
            throw unsupported
        }
        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw unsupported }
        func superDecoder() throws -> any Decoder { throw unsupported }
        func superDecoder(forKey key: Key) throws -> any Decoder { throw unsupported }
    }
}

private var unsupported: DecodingError {
    .dataCorrupted(DecodingError.Context(codingPath: [], debugDescription: "a row has columns and nothing else"))
}

extension FetchedRow {
    fileprivate func index(of key: some CodingKey) -> Int? {
        var column = ""
        var isInWord = false
        for letter in key.stringValue.unicodeScalars {
            let isCapital = ("A"..."Z").contains(letter)
            if isCapital, isInWord { column.unicodeScalars.append("_") }
            column.unicodeScalars.append(isCapital ? Unicode.Scalar(letter.value | 0x20)! : letter)
            isInWord = !isCapital
        }
        return index(of: column) ?? index(of: key.stringValue)
    }
}
