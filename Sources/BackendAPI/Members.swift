// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// The members of a body, or the parameters of a URI. An unknown one is a mistake, so that `user` in place of `user_id` is not overlooked.
struct Members {
    /// Nil for null, which many languages write for a member that they do not have.
    private let members: [String: Value?]
    private var known: Set<String> = []
    private var mistakes: [String] = []

    private enum Value: Decodable {
        case text(String)
        case parameter(String)
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

    init(ofBody request: Request) async throws(Problem) {
        let type = request.headers[.contentType]?.split(separator: ";").first?.lowercased() ?? ""
        guard type.trimmingCharacters(in: .whitespaces) == "application/json" else { throw Problem(.unsupportedMediaType) }
        let bytes = try await request.bytes()
        do {
            members = try JSONDecoder().decode([String: Value?].self, from: Data(bytes))
        } catch {
            throw Problem(.badRequest, "the body is not a JSON object")
        }
    }

    init(ofQuery request: Request) {
        let values = Dictionary(grouping: request.uri.queryParameters) { String($0.key) }
        members = values.mapValues { $0.first.map { .parameter(String($0.value)) } }
        for (name, values) in values where values.count > 1 && TextForm.plainName.matches(name) { note("\(name) is given twice") }
    }

    func has(_ name: String) -> Bool { (members[name] ?? nil) != nil }

    mutating func text(_ name: String, _ form: TextForm) -> String? {
        known.insert(name)
        switch members[name] ?? nil {
        case nil: return nil
        case .text(let text) where form.matches(text), .parameter(let text) where form.matches(text): return text
        default:
            note("\(name) has to be \(form.words)")
            return nil
        }
    }

    mutating func requiredText(_ name: String, _ form: TextForm) -> String {
        if !has(name) { note("\(name) is missing") }
        return text(name, form) ?? ""
    }

    mutating func integer(_ name: String, _ range: ClosedRange<Int64>) -> Int64? {
        known.insert(name)
        let number: Int64?
        switch members[name] ?? nil {
        case nil: return nil
        case .integer(let value): number = value
        case .parameter(let text): number = Int64(decimal: text)
        default: number = nil
        }
        if let number, range.contains(number) { return number }
        note(TextForm.mistake(name, range))
        return nil
    }

    mutating func flag(_ name: String) -> Bool? {
        known.insert(name)
        switch members[name] ?? nil {
        case nil: return nil
        case .flag(let flag): return flag
        // Apple's own older form.
        case .text("true"): return true
        case .text("false"): return false
        default:
            note("\(name) has to be true or false")
            return nil
        }
    }

    mutating func note(_ mistake: String) { mistakes.append(mistake) }

    func finish() throws(Problem) {
        let unknown = members.keys.filter { !known.contains($0) }.sorted()
        let all = TextForm.mistake(unknown, known) + mistakes
        guard all.isEmpty else { throw Problem(.badRequest, all.joined(separator: "; ")) }
    }
}

extension Request {
    /// - Throws: `Problem` if the body is longer than any that is meant, or does not come to its end.
    func bytes() async throws(Problem) -> [UInt8] {
        do {
            return Array(buffer: try await body.collect(upTo: Queue.longestNotification))
        } catch is NIOTooManyBytesError {
            throw Problem(.tooLarge, "it is longer than \(Queue.longestNotification) bytes")
        } catch {
            throw Problem(.badRequest, "the body did not come to its end")
        }
    }
}

extension Int64 {
    /// A number in decimal digits, without a sign and without leading zeros.
    init?(decimal text: some StringProtocol) {
        guard text == "0" || text.first != "0", text.utf8.allSatisfy(\.isDigit), let number = Int64(text) else { return nil }
        self = number
    }
}

extension HTTPField.Name {
    static let idempotencyKey = Self("Idempotency-Key")!
    static let lastEventID = Self("Last-Event-ID")!
}

extension Request {
    /// - Parameter parts: what is told.
    func key(of client: String, for parts: [String?]) throws(Problem) -> RequestKey? {
        guard let key = headers[.idempotencyKey] else { return nil }
        guard TextForm.name.matches(key) else { throw Problem(.badRequest, "the header Idempotency-Key has to be \(TextForm.name.words)") }
        return RequestKey(client: client, key: key, digest: Array(SHA256.hash(data: parts.digestible)))
    }
}
