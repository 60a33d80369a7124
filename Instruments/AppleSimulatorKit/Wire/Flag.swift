// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A boolean claim in one of the two forms that Apple has used.
enum Flag: Sendable, Encodable {
    case string(Bool)
    case bool(Bool)

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let value): try container.encode(value ? "true" : "false")
        case .bool(let value): try container.encode(value)
        }
    }
}
