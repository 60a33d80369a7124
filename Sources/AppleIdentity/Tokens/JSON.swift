// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A JSON value as it came over the wire.
enum JSON: Sendable, Equatable {
    case null
    case bool(Bool)
    /// Written without fraction or exponent, and within 64 bits.
    case integer(Int64)
    /// Any other number; always finite.
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])
}

extension JSON {
    /// The members of an object; nil for anything else.
    var object: [String: JSON]? {
        if case .object(let members) = self { members } else { nil }
    }

    /// The elements of an array; nil for anything else.
    var array: [JSON]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// The text of a string; nil for anything else.
    var string: String? {
        if case .string(let text) = self { text } else { nil }
    }
}
