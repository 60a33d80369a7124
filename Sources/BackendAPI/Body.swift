// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Hummingbird
import NIOCore

/// The body of a request while it is read: a JSON object with members that are known.
///
/// A member that is unknown or wrong is a mistake, so that `user` in place of `user_id` is not overlooked.
struct Body {
    private let members: [String: Value]
    private var known: Set<String> = []
    private var mistakes: [String] = []

    /// The value of a member, as far as any is taken.
    private enum Value: Decodable {
        case text(String)
        case integer(Int64)
        case flag(Bool)
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let flag = try? container.decode(Bool.self) {
                self = .flag(flag)
            } else if let integer = try? container.decode(Int64.self) {
                self = .integer(integer)
            } else if let text = try? container.decode(String.self) {
                self = .text(text)
            } else {
                self = .other
            }
        }
    }

    init(of request: Request) async throws(Problem) {
        let type = request.headers[.contentType]?.split(separator: ";").first?.lowercased() ?? ""
        guard type.trimmingCharacters(in: .whitespaces) == "application/json" else { throw Problem(.unsupportedMediaType) }
        let bytes = try await request.bytes()
        do {
            members = try JSONDecoder().decode([String: Value].self, from: Data(bytes))
        } catch {
            throw Problem(.badRequest, "the body is not a JSON object")
        }
    }

    func has(_ name: String) -> Bool { members[name] != nil }

    mutating func text(_ name: String, _ form: TextForm) -> String? {
        known.insert(name)
        guard let value = members[name] else { return nil }
        guard case .text(let text) = value, form.matches(text) else {
            note("\(name) has to be \(form.words)")
            return nil
        }
        return text
    }

    mutating func requiredText(_ name: String, _ form: TextForm) -> String {
        if members[name] == nil { note("\(name) is missing") }
        return text(name, form) ?? ""
    }

    mutating func integer(_ name: String, _ range: ClosedRange<Int64>) -> Int64? {
        known.insert(name)
        guard let value = members[name] else { return nil }
        guard case .integer(let number) = value, range.contains(number) else {
            note(TextForm.mistake(name, range))
            return nil
        }
        return number
    }

    mutating func flag(_ name: String) -> Bool? {
        known.insert(name)
        guard let value = members[name] else { return nil }
        guard case .flag(let flag) = value else {
            note("\(name) has to be true or false")
            return nil
        }
        return flag
    }

    mutating func note(_ mistake: String) { mistakes.append(mistake) }

    /// Ends the reading.
    func finish() throws(Problem) {
        let unknown = members.keys.filter { !known.contains($0) }.sorted()
        let all = TextForm.mistake(unknown, known) + mistakes
        guard all.isEmpty else { throw Problem(.badRequest, all.joined(separator: "; ")) }
    }
}

extension Request {
    /// - Throws: `Problem` if the body is longer than any that is meant, or does not come to its end.
    func bytes() async throws(Problem) -> [UInt8] {
        let buffer: ByteBuffer
        do {
            buffer = try await body.collect(upTo: Queue.longestNotification)
        } catch is NIOTooManyBytesError {
            throw Problem(.tooLarge, "it is longer than \(Queue.longestNotification) bytes")
        } catch {
            throw Problem(.badRequest, "the body did not come to its end")
        }
        return Array(buffer: buffer)
    }
}
