// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The body of a control request: a JSON object. It may be absent if all its members are optional.
///
/// An unknown member is an error, because a misspelt `event_time` would quietly test something else.
protocol ControlMessage: Decodable {
    static var members: [String] { get }
}

extension ControlMessage {
    /// - Throws: `ControlError.malformed` with a sentence that names the member.
    static func read(_ body: Data) throws -> Self {
        let body = body.isEmpty ? Data("{}".utf8) : body
        do {
            let present = try JSONText.decode([String: Anything].self, from: body).keys
            if let stranger = present.filter({ !members.contains($0) }).min() {
                throw ControlError.malformed("Unknown member \(stranger). Known here: \(members.joined(separator: ", ")).")
            }
            return try JSONText.decode(Self.self, from: body)
        } catch let error as DecodingError {
            throw ControlError.malformed(error.sentence)
        }
    }
}

/// The value of a member whose name alone matters.
private struct Anything: Decodable {
    init(from decoder: any Decoder) {}
}

/// Why the simulator cannot obey a control request, beyond the errors of the world itself.
enum ControlError: Error {
    case malformed(String)
}

extension CaseIterable where Self: CodingKey {
    /// The names of all members, for ``ControlMessage/members``.
    static var names: [String] { allCases.map(\.stringValue) }
}

extension KeyedDecodingContainer {
    /// An optional number, checked against its range.
    func decodeIfPresent<Number: BinaryInteger & Decodable>(in range: ClosedRange<Number>, forKey key: Key) throws -> Number? {
        guard let number = try decodeIfPresent(Number.self, forKey: key) else { return nil }
        guard range.contains(number) else {
            let sentence = "It lies outside \(range.lowerBound)...\(range.upperBound)."
            throw DecodingError.dataCorruptedError(forKey: key, in: self, debugDescription: sentence)
        }
        return number
    }
}

extension DecodingError {
    fileprivate var sentence: String {
        switch self {
        case .keyNotFound(let key, _): "The member \(key.stringValue) is missing."
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            "\(context.codingPath.map(\.stringValue).joined(separator: ".")): \(context.debugDescription)"
        @unknown default: "The body cannot be read."
        }
    }
}
