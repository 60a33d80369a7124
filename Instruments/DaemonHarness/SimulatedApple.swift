// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AsyncHTTPClient
package import Foundation
internal import NIOCore
internal import NIOFoundationCompat
internal import NIOHTTP1

/// An `apple-simulator` process, and its control routes as functions.
package struct SimulatedApple: Sendable {
    package let process: ChildProcess
    /// `http://127.0.0.1:PORT`
    package let url: String
    private let client: HTTPClient

    /// Starts one on a free port. Its key file is made in `folder`.
    package init(in folder: URL, clientIDs: [String] = ["com.example.app", "com.example.web"], client: HTTPClient = .shared) async throws {
        let keyFile = folder.appending(path: Self.keyFile).path
        process = try ChildProcess(
            "apple-simulator",
            ["--port", "0", "--key-id", Self.keyID, "--team-id", Self.teamID, "--key-file", keyFile]
                + clientIDs.flatMap { ["--client-id", $0] }
        )
        guard let line = await process.line(containing: "listening on http"), let url = line.split(separator: " ").last else {
            throw HarnessError("apple-simulator did not start: \(process.output.joined(separator: "\n"))")
        }
        self.url = String(url)
        self.client = client
    }

    package static let keyID = "ABC123DEFG"
    package static let teamID = "A1B2C3D4E5"
    package static let keyFile = "AuthKey_ABC123DEFG.p8"

    // The members are named as the simulator writes them.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    package struct SignIn: Codable, Sendable {
        package var client_id: String
        package var user_id: String
        package var refresh_token: String?
        package var email: String?
        package var email_is_private: Bool?
        package var granted_at: Int64
    }

    package struct Notification: Decodable, Sendable {
        /// The body of Apple's POST.
        package var body: String
    }

    // swift-format-ignore: AlwaysUseLowerCamelCase
    private struct SignIns: Decodable { var sign_ins: [SignIn] }
    private struct Notifications: Decodable { var notifications: [Notification] }

    /// Lets new users sign in.
    package func signIn(_ count: Int, clientID: String? = nil) async throws -> [SignIn] {
        // swift-format-ignore: AlwaysUseLowerCamelCase
        struct Body: Encodable {
            var count: Int
            var client_id: String?
        }
        return try await post("users", Body(count: count, client_id: clientID), as: SignIns.self).sign_ins
    }

    /// Lets known users do something, and returns what Apple says of it. `action` is a control route such as `consent-revocations`.
    package func notify(_ action: String, users: [String], _ more: [String: JSONValue] = [:]) async throws -> [String] {
        var body = more
        body["user_ids"] = .array(users.map { .string($0) })
        return try await post(action, body, as: Notifications.self).notifications.map(\.body)
    }

    /// Posts to a control route.
    package func post<Answer: Decodable>(_ route: String, _ body: some Encodable, as: Answer.Type) async throws -> Answer {
        var request = HTTPClientRequest(url: "\(url)/simulator/\(route)")
        request.method = .POST
        request.body = .bytes(ByteBuffer(data: try JSONEncoder().encode(body)))
        return try await send(request)
    }

    package func get<Answer: Decodable>(_ route: String, as: Answer.Type) async throws -> Answer {
        try await send(HTTPClientRequest(url: "\(url)/simulator/\(route)"))
    }

    package func delete(_ route: String) async throws {
        var request = HTTPClientRequest(url: "\(url)/simulator/\(route)")
        request.method = .DELETE
        _ = try await client.execute(request, timeout: .seconds(30)).body.collect(upTo: 1 << 20)
    }

    private func send<Answer: Decodable>(_ request: HTTPClientRequest) async throws -> Answer {
        let response = try await client.execute(request, timeout: .seconds(60))
        let body = try await response.body.collect(upTo: 256 << 20)
        guard (200...299).contains(response.status.code) else {
            throw HarnessError("\(request.url) answered \(response.status.code): \(String(buffer: body))")
        }
        return try JSONDecoder().decode(Answer.self, from: Data(buffer: body))
    }

    package func stop() async {
        process.signal(SIGTERM)
        await process.exit()
    }
}

/// A JSON value in a request body.
package enum JSONValue: Encodable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    case string(String)
    case integer(Int64)
    case boolean(Bool)
    case array([JSONValue])

    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(booleanLiteral value: Bool) { self = .boolean(value) }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .boolean(let value): try container.encode(value)
        case .array(let values): try container.encode(values)
        }
    }
}

package struct HarnessError: Error, CustomStringConvertible {
    package var description: String

    package init(_ description: String) {
        self.description = description
    }
}
