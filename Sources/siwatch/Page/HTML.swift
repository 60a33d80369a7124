// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Markup. Text from elsewhere gets into it only escaped, by interpolation.
struct HTML: Sendable {
    private(set) var markup: String

    fileprivate init(markup: String) {
        self.markup = markup
    }

    static func + (left: HTML, right: HTML) -> HTML { HTML(markup: left.markup + right.markup) }
}

extension HTML: ExpressibleByStringInterpolation {
    init(stringLiteral markup: String) {
        self.markup = markup
    }

    init(stringInterpolation: Interpolation) {
        markup = stringInterpolation.markup
    }

    struct Interpolation: StringInterpolationProtocol {
        fileprivate var markup = ""

        init(literalCapacity: Int, interpolationCount: Int) {}

        mutating func appendLiteral(_ literal: String) {
            markup += literal
        }

        mutating func appendInterpolation(_ html: HTML) {
            markup += html.markup
        }

        mutating func appendInterpolation(_ text: String) {
            markup += text.printable.escaped { scalar in
                switch scalar {
                case "&": "&amp;"
                case "<": "&lt;"
                case ">": "&gt;"
                case "\"": "&quot;"
                case "'": "&#39;"
                default: nil
                }
            }
        }

        mutating func appendInterpolation(_ number: some BinaryInteger) {
            markup += "\(number)"
        }

        /// A style or a script, which holds nothing from elsewhere.
        mutating func appendInterpolation(trusted text: StaticString) {
            markup += "\(text)"
        }
    }
}

extension Sequence<HTML> {
    func joined(separator: String = "") -> HTML { HTML(markup: map(\.markup).joined(separator: separator)) }
}
