// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A statement, or a part of one, with its values: `"SELECT id FROM app WHERE name = \(name)"`. The values never become text of the
/// statement. A string that is text of it says so: `\(sql: columns)`.
package struct SQL: Sendable, ExpressibleByStringInterpolation {
    /// What stands before, between and after the values.
    private var pieces: [String]
    package private(set) var values: [ColumnValue] = []

    package init(stringLiteral text: String) { pieces = [text] }

    package init(stringInterpolation statement: StringInterpolation) { self = statement.sql }

    /// With the values as `$1`, `$2` and so on, because both engines take these names.
    package var text: String {
        pieces.dropFirst().enumerated().reduce(into: pieces[0]) { $0 += "$\($1.offset + 1)\($1.element)" }
    }

    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var sql: SQL = ""

        package init(literalCapacity: Int, interpolationCount: Int) {}

        package mutating func appendLiteral(_ text: String) { sql.pieces[sql.pieces.count - 1] += text }
        package mutating func appendInterpolation(sql text: some LosslessStringConvertible) { appendLiteral(String(text)) }

        package mutating func appendInterpolation(_ part: SQL) {
            appendLiteral(part.pieces[0])
            sql.pieces += part.pieces.dropFirst()
            sql.values += part.values
        }

        package mutating func appendInterpolation(_ value: some BindableValue) { appendInterpolation(values: [value.columnValue]) }
        package mutating func appendInterpolation(_ value: ColumnValue) { appendInterpolation(values: [value]) }

        /// Several values, with commas between them.
        package mutating func appendInterpolation(values: [ColumnValue]) {
            for (index, value) in values.enumerated() {
                if index > 0 { appendLiteral(", ") }
                sql.values.append(value)
                sql.pieces.append("")
            }
        }

        /// An array of a server.
        package mutating func appendInterpolation<Element: BindableValue>(array elements: some Sequence<Element>) {
            appendInterpolation(values: [.array(elements.map(\.columnValue), of: Element.null)])
        }
    }
}
