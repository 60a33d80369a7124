// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1

extension SiwatchClient {
    func post<Answer: Decodable>(_ path: String, _ body: some Encodable, key: String?, wait: Int = 0) async throws -> Answer {
        let key = key ?? UUID().uuidString
        guard key.isWord else { throw InvalidArgument("The key has to be visible characters of ASCII.") }
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        var request = HTTPClientRequest(url: base + path)
        request.method = .POST
        request.headers.add(name: "content-type", value: "application/json")
        request.headers.add(name: "idempotency-key", value: key)
        request.body = .bytes(ByteBuffer(bytes: try encoder.encode(body)))
        return try await ask(request, wait: wait, patience: .seconds(10))
    }

    /// - Parameter patience: how long it tries; nil for the client's own patience.
    func get<Answer: Decodable>(
        _ path: String,
        _ query: KeyValuePairs<String, String?> = [:],
        wait: Int = 0,
        patience: Duration? = nil
    ) async throws -> Answer {
        let given = query.compactMap { name, value in value.map { "\(name)=\($0.percentEncoded)" } }
        let request = HTTPClientRequest(url: base + path + (given.isEmpty ? "" : "?" + given.joined(separator: "&")))
        return try await ask(request, wait: wait, patience: patience ?? self.patience)
    }

    private func ask<Answer: Decodable>(_ request: HTTPClientRequest, wait: Int, patience: Duration) async throws -> Answer {
        try absence.check(patience: patience)
        var request = request
        request.headers.add(name: "authorization", value: "Bearer \(token)")
        if base.hasPrefix("http+unix:") { request.headers.add(name: "host", value: "localhost") }
        let start = ContinuousClock.now
        var deadline = start + patience
        var failures = 0
        while true {
            do {
                let limit = max(.milliseconds(10), min(timeout, deadline - .now))
                let answer: Answer = try await attempt(request, within: limit + .seconds(wait))
                absence.end(patience: patience)
                return answer
            } catch let error as SiwatchError where error.isTemporary {
                // An answer that was lost during a long wait is asked for again. One that did not come in all that time is not.
                if failures == 0 { deadline = max(deadline, min(.now, start + timeout) + .seconds(wait)) }
                // The first pause is none, because siwatch may just have closed an idle connection.
                let seconds = Double((1 << min(failures, 7)) - 1) / 4 * Double.random(in: 0.5...1)
                failures += 1
                let left = deadline - .now
                guard left > .zero, error.retryAfter <= left else {
                    absence.begin(patience: patience)
                    throw error
                }
                // The last try is at the end.
                try await Task.sleep(for: min(max(error.retryAfter, .seconds(seconds)), left))
            } catch let error where !(error is CancellationError) {
                absence.end(patience: patience)
                throw error
            }
        }
    }

    private func attempt<Answer: Decodable>(_ request: HTTPClientRequest, within limit: Duration) async throws -> Answer {
        let (response, body) = try await exchange(request, within: limit)
        let bytes = Data(body.readableBytesView)
        let status = Int(response.status.code)
        guard status == 200 || status == 202 else {
            let problem = (try? JSONDecoder.siwatch.decode(Problem.self, from: bytes)) ?? Problem(title: "This is not siwatch's HTTP door")
            let seconds = response.headers.first(name: "retry-after").flatMap { Int($0) } ?? 0
            throw problem.error(status, retryAfter: .seconds(seconds))
        }
        do {
            return try JSONDecoder.siwatch.decode(Answer.self, from: bytes)
        } catch DecodingError.dataCorrupted(let context) {
            throw SiwatchError(title: "No whole answer came", detail: context.debugDescription)
        }
    }

    /// Bounds the whole exchange. The time-outs of async-http-client end with the head of the answer.
    private func exchange(_ request: HTTPClientRequest, within limit: Duration) async throws -> (HTTPClientResponse, ByteBuffer) {
        do {
            return try await withThrowingTaskGroup(of: (HTTPClientResponse, ByteBuffer).self) { group in
                group.addTask {
                    let response = try await http.execute(request, deadline: .distantFuture)
                    return (response, try await response.body.collect(upTo: 8 << 20))
                }
                group.addTask {
                    try await Task.sleep(for: limit)
                    throw TooLate()
                }
                defer { group.cancelAll() }
                return try await group.next()!
            }
        } catch {
            try Task.checkCancellation()
            // Its description may quote headers, and so the token.
            throw SiwatchError(title: "No whole answer came", detail: (error as? HTTPClientError)?.shortDescription ?? "\(error)")
        }
    }

    private struct TooLate: Error {}

    /// `application/problem+json`.
    struct Problem: Decodable {
        static let notFound = "urn:siwatch:problem:not-found"

        var type, title, detail, reason, id, next: String?

        func error(_ status: Int, retryAfter: Duration) -> any Error {
            switch (type, id, next) {
            case ("urn:siwatch:problem:sign-in-rejected"?, let id?, _):
                SignInRejected(reason: reason ?? "rejected", detail: detail, id: id)
            case ("urn:siwatch:problem:changes-gone"?, _, let next?): ChangesGone(next: next)
            default: SiwatchError(status: status, type: type, title: title, detail: detail, retryAfter: retryAfter)
            }
        }
    }
}

extension Duration {
    /// The patience of a call that never gives up.
    static let forever = Duration.seconds(1 << 40)

    /// Whole seconds, rounded up.
    func seconds(upTo most: Int) -> Int {
        Int(max(0, min(Double(most), (self / Duration.seconds(1)).rounded(.up))))
    }
}

extension String {
    /// Whether it may stand in a header of HTTP as one word.
    var isWord: Bool { !isEmpty && utf8.allSatisfy { (0x21...0x7e).contains($0) } }

    /// With all but the unreserved characters of RFC 3986 encoded.
    var percentEncoded: String {
        let unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
        return addingPercentEncoding(withAllowedCharacters: CharacterSet(charactersIn: unreserved)) ?? self
    }
}

extension JSONDecoder {
    /// Reads `user_id` as `userID`.
    static var siwatch: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .custom { path in
            let words = path[path.count - 1].stringValue.split(separator: "_").map(String.init)
            return Name(stringValue: words.dropFirst().reduce(words.first ?? "") { $0 + ($1 == "id" ? "ID" : $1.capitalized) })
        }
        return decoder
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }

        init?(intValue: Int) { nil }
    }
}
