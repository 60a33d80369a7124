// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit
import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHTTP1

/// An `apple-simulator` process, and its control routes as functions.
package struct SimulatedApple: Sendable {
    package let process: ChildProcess
    /// `http://127.0.0.1:PORT`
    package let url: String

    package static let keyID = "ABC123DEFG"
    package static let teamID = "A1B2C3D4E5"
    package static let keyFile = "AuthKey_ABC123DEFG.p8"
    /// The primary App ID, and a Services ID grouped with it.
    package static let clientIDs = ["com.example.app", "com.example.web"]

    /// Starts one on a free port. Its key file is made in `folder`.
    ///
    /// - Parameter answerReuse: how long it may repeat an answer, because signing a new one is slow.
    package init(in folder: URL, answerReuse: Duration = .seconds(60)) async throws {
        let keyFile = folder.appending(path: Self.keyFile).path
        process = try ChildProcess(
            "apple-simulator",
            ["--port", "0", "--key-id", Self.keyID, "--team-id", Self.teamID, "--key-file", keyFile]
                + ["--answer-reuse", "\(answerReuse.components.seconds)"]
                + Self.clientIDs.flatMap { ["--client-id", $0] }
        )
        guard let line = await process.line(containing: "listening on http"), let url = line.split(separator: " ").last else {
            throw HarnessError("apple-simulator did not start: \(process.output.joined(separator: "\n"))")
        }
        self.url = String(url)
    }

    /// Tells the process to stop.
    ///
    /// - Returns: the exit code.
    @discardableResult
    package func stop() async -> Int32 {
        process.signal(SIGTERM)
        return await process.exit()
    }

    // MARK: Actions of people

    /// Lets new users sign in.
    package func signIn(_ count: Int, clientID: String = clientIDs[0]) async throws -> [SignIn] {
        let body: [String: JSONValue] = ["count": .integer(Int64(count)), "client_id": .string(clientID)]
        return try await send(.POST, "users", body, as: SignInsMessage.self).signIns
    }

    /// Lets known users sign in.
    package func signIn(_ users: [String], clientID: String) async throws -> [SignIn] {
        let body: [String: JSONValue] = ["user_ids": .array(users.map(JSONValue.string)), "client_id": .string(clientID)]
        return try await send(.POST, "sign-ins", body, as: SignInsMessage.self).signIns
    }

    /// Lets new users sign in with codes that no backend has exchanged yet.
    ///
    /// - Parameter grantedAt: the time of the sign-ins. A code is good for five minutes from then.
    package func signInByCode(
        _ count: Int,
        clientID: String = clientIDs[0],
        redirectURI: String? = nil,
        nonce: String? = nil,
        grantedAt: Moment? = nil
    ) async throws -> [SignIn] {
        let body = Self.byCode(clientID, redirectURI, nonce, grantedAt, ["count": .integer(Int64(count))])
        return try await send(.POST, "users", body, as: SignInsMessage.self).signIns
    }

    /// Lets known users sign in with codes.
    package func signInByCode(
        _ users: [String],
        clientID: String,
        redirectURI: String? = nil,
        nonce: String? = nil,
        grantedAt: Moment? = nil
    ) async throws -> [SignIn] {
        let body = Self.byCode(clientID, redirectURI, nonce, grantedAt, ["user_ids": .array(users.map(JSONValue.string))])
        return try await send(.POST, "sign-ins", body, as: SignInsMessage.self).signIns
    }

    private static func byCode(
        _ clientID: String,
        _ redirectURI: String?,
        _ nonce: String?,
        _ grantedAt: Moment?,
        _ whom: [String: JSONValue]
    ) -> [String: JSONValue] {
        var body = whom
        body["client_id"] = .string(clientID)
        body["credential"] = "authorization_code"
        body["redirect_uri"] = redirectURI.map(JSONValue.string)
        body["nonce"] = nonce.map(JSONValue.string)
        body["granted_at"] = grantedAt.map { .integer($0.milliseconds) }
        return body
    }

    /// Lets known users do something, and returns Apple's notifications. `action` is a control route such as `consent-revocations`.
    package func notify(_ action: String, users: [String], _ more: [String: JSONValue] = [:]) async throws -> [SignedNotification] {
        let body = more.merging(["user_ids": .array(users.map(JSONValue.string))]) { $1 }
        return try await send(.POST, action, body, as: NotificationsMessage.self).notifications
    }

    /// The truth about one user.
    package func user(_ userID: String) async throws -> UserTruth {
        try await send(.GET, "users/\(userID)", as: UserTruth.self)
    }

    /// The truth about all users.
    package func users() async throws -> [UserTruth] {
        try await send(.GET, "users", as: UsersMessage.self).users
    }

    // MARK: Trouble and figures

    package func script(_ fault: Fault) async throws {
        _ = try await send(.POST, "faults", fault, as: FaultIDMessage.self)
    }

    package func clearFaults() async throws {
        _ = try await send(.DELETE, "faults", as: DoneMessage.self)
    }

    package func counters() async throws -> CountersMessage {
        try await send(.GET, "counters", as: CountersMessage.self)
    }

    package func resetCounters() async throws {
        _ = try await send(.DELETE, "counters", as: DoneMessage.self)
    }

    private func send<Answer: Decodable>(
        _ method: HTTPMethod,
        _ route: String,
        _ body: (some Encodable)? = Never?.none,
        as: Answer.Type
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: "\(url)/simulator/\(route)")
        request.method = method
        if let body { request.body = .bytes(ByteBuffer(data: try JSONEncoder().encode(body))) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let answer = try await response.body.collect(upTo: 256 << 20)
        guard (200...299).contains(response.status.code) else {
            throw HarnessError("\(request.url) answered \(response.status.code): \(String(buffer: answer))")
        }
        return try JSONDecoder().decode(Answer.self, from: Data(buffer: answer))
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
