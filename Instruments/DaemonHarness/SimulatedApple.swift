// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit
import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHTTP1

/// An `apple-simulator` process, and a client of its control routes.
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

    /// Lets a message happen in the simulator.
    ///
    /// - Throws: `HarnessError` with the simulator's sentence if it refuses, or an error of AsyncHTTPClient.
    @discardableResult
    package func send<Message: ControlMessage>(_ message: Message) async throws -> Message.Answer {
        var request = HTTPClientRequest(url: "\(url)/simulator/\(message.path)")
        request.method = HTTPMethod(rawValue: Message.method)
        request.body = message.body.map { .bytes(ByteBuffer(data: $0)) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let answer = try await response.body.collect(upTo: 256 << 20)
        guard (200...299).contains(response.status.code) else {
            throw HarnessError("\(request.url) answered \(response.status.code): \(String(buffer: answer))")
        }
        return try JSONDecoder().decode(Message.Answer.self, from: Data(buffer: answer))
    }

    // MARK: The commonest messages

    /// Lets new users sign in.
    package func signIn(_ count: Int, clientID: String = clientIDs[0]) async throws -> [SignIn] {
        try await send(SignUp(count, SignInOptions(clientID: clientID))).signIns
    }

    /// Lets known users sign in.
    package func signIn(_ users: [String], clientID: String) async throws -> [SignIn] {
        try await send(SignInAgain(.these(users), SignInOptions(clientID: clientID))).signIns
    }

    /// Lets new users sign in with codes that no backend has exchanged yet.
    package func signInByCode(
        _ count: Int,
        clientID: String = clientIDs[0],
        redirectURI: String? = nil,
        nonce: String? = nil
    ) async throws -> [SignIn] {
        let options = SignInOptions(clientID: clientID, credential: .code, redirectURI: redirectURI, nonce: nonce)
        return try await send(SignUp(count, options)).signIns
    }

    /// Lets known users sign in with codes.
    package func signInByCode(_ users: [String], clientID: String) async throws -> [SignIn] {
        try await send(SignInAgain(.these(users), SignInOptions(clientID: clientID, credential: .code))).signIns
    }

    /// Lets an event happen to known users, and returns Apple's notifications.
    package func notify(
        _ event: some PeopleEvent,
        users: [String],
        _ emission: Emission = Emission()
    ) async throws -> [SignedNotification] {
        try await send(EventMessage(event, of: .these(users), emission)).notifications
    }

    package func script(_ fault: Fault) async throws {
        try await send(fault)
    }
}
