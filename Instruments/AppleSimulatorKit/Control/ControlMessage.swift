// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import Foundation

/// An operation of the simulator: its route, the members of its request, its answer and its effect.
///
/// The control routes read it and a client writes it, so that each name stands once. It is a JSON object, or absent if it may be empty.
package protocol ControlMessage: Codable, Sendable {
    associatedtype Answer: Codable & Sendable

    /// The method, and the path below `/simulator`, as `GET users/:id`.
    static var route: String { get }
    /// The names of all members. An unknown member is an error, because a misspelt `event_time` would quietly test something else.
    static var members: [String] { get }
    var path: String { get }
    var body: Data? { get }

    /// - Parameter id: the text in the place of `:id`.
    /// - Throws: `ControlError.malformed` with a sentence that names the member.
    static func read(_ body: Data, id: String?) throws -> Self

    /// - Throws: `SimulatorError` or `ControlError` if it is impossible, or an error of swift-crypto if a signature or a key fails.
    func happen(in simulator: AppleSimulator) async throws -> Answer
}

/// A message about one object. It has no body: the id of the object stands in the path.
package protocol ObjectMessage: ControlMessage {
    associatedtype ID: LosslessStringConvertible
    var id: ID { get }

    init(id: ID)
}

package struct Done: Codable, Sendable {}

extension ControlMessage {
    package static var method: String { String(route.prefix { $0 != " " }) }
    static var path: String { String(route.drop { $0 != " " }.dropFirst()) }
    package static var members: [String] { [] }
    package var path: String { Self.path }
    package var body: Data? { Self.members.isEmpty ? nil : JSONText.encode(self) }

    package static func read(_ body: Data, id: String?) throws -> Self {
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

extension ObjectMessage {
    package var path: String { Self.path.replacing(":id", with: id.description) }
    package var body: Data? { nil }

    package static func read(_ body: Data, id: String?) throws -> Self {
        guard let id = id.flatMap(ID.init) else { throw ControlError.malformed("\(id ?? "") is no id.") }
        return Self(id: id)
    }
}

/// The value of a member whose name alone matters.
private struct Anything: Decodable {
    init(from decoder: any Decoder) {}
}

/// Why the simulator cannot read a control message. The errors of the world are `SimulatorError`.
enum ControlError: Error {
    case malformed(String)
}

extension CaseIterable where Self: CodingKey {
    /// The names of all members, for ``ControlMessage/members``.
    static var names: [String] { allCases.map(\.stringValue) }
}

extension CodingKey {
    func check<Number: BinaryInteger>(_ member: Number?, in range: ClosedRange<Number>) throws(ControlError) {
        guard let member, !range.contains(member) else { return }
        throw .malformed("\(stringValue): It lies outside \(range.lowerBound)...\(range.upperBound).")
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
