// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Markup. Text from elsewhere gets into it only escaped, by interpolation.
struct HTML: ExpressibleByStringInterpolation {
    private(set) var markup: String

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

        mutating func appendInterpolation(_ parts: [HTML]) {
            markup += parts.map(\.markup).joined(separator: "\n")
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

        /// A style or a script, which holds nothing from elsewhere.
        mutating func appendInterpolation(trusted text: StaticString) {
            markup += "\(text)"
        }
    }
}
