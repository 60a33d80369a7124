// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit
import AsyncHTTPClient
package import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHTTP1

/// A simulated Apple, and a client of its control routes.
package struct SimulatedApple: Sendable {
    package enum Place: Sendable {
        /// In this process, with a signing key that is made once for all.
        case here
        /// In this process, for a person at work: on this port unless another program has it, and codes live as long as the simulator.
        case preferring(port: Int)
        case process
    }

    package let url: String
    package let process: ChildProcess?
    /// The one in this process.
    package let simulator: AppleSimulator?
    private let service: Task<Void, any Error>?

    package static let keyID = "ABC123DEFG"
    package static let teamID = "A1B2C3D4E5"
    package static let keyFile = "AuthKey_ABC123DEFG.p8"
    /// The primary App ID, and a Services ID grouped with it.
    package static let clientIDs = ["com.example.app", "com.example.web"]

    private static let signingKey = Result { try SigningKey() }

    /// Gives `body` one on a free port, and the folder its key file.
    ///
    /// - Parameter answerReuse: how long it may repeat an answer, because signing a new one is slow.
    package static func with<Result>(
        in folder: URL,
        _ place: Place = .here,
        answerReuse: Duration = .seconds(60),
        _ body: (SimulatedApple) async throws -> Result
    ) async throws -> Result {
        let keyFile = folder.appending(path: Self.keyFile).path
        switch place {
        case .here, .preferring:
            // It goes on until the process ends: see `AppleSimulator.start`.
            return try await body(SimulatedApple(keyFile: keyFile, answerReuse: answerReuse, place))
        case .process:
            let apple = try await SimulatedApple(programWithKeyFile: keyFile, answerReuse: answerReuse)
            do {
                let result = try await body(apple)
                await apple.stop()
                return result
            } catch {
                await apple.stop()
                throw error
            }
        }
    }

    /// One that another program runs.
    package init(at url: String) { (self.url, service, process, simulator) = (url, nil, nil, nil) }

    private init(keyFile: String, answerReuse: Duration, _ place: Place) async throws {
        let key = ClientKey.generate(id: Self.keyID)
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        guard FileManager.default.createFile(atPath: keyFile, contents: Data("\(key.pem)\n".utf8), attributes: attributes) else {
            throw HarnessError("\(keyFile) cannot be written")
        }
        var configuration = SimulatorConfiguration(
            groups: [AppGroup(teamID: Self.teamID, clientIDs: Self.clientIDs, keys: [key.registered])]
        )
        configuration.answerReuse = answerReuse
        configuration.signingKey = try Self.signingKey.get()
        if case .preferring(let port) = place { (configuration.port, configuration.codeLife) = (port, .seconds(365 * 86_400)) }
        let started = try await Self.start(configuration)
        (simulator, url, service, process) = (started.simulator, started.baseURL, started.running, nil)
    }

    private static func start(
        _ configuration: SimulatorConfiguration
    ) async throws -> (simulator: AppleSimulator, baseURL: String, running: Task<Void, any Error>) {
        // No child task, because it outlives its test. `stop()` ends it, and awaits its end.
        if configuration.port != 0, let started = try? await AppleSimulator.start(configuration, on: OwnThread()) { return started }
        var elsewhere = configuration
        elsewhere.port = 0
        return try await AppleSimulator.start(elsewhere, on: OwnThread())
    }

    private init(programWithKeyFile keyFile: String, answerReuse: Duration) async throws {
        let process = try ChildProcess(
            "siwatch-simulator",
            ["--port", "0", "--key-id", Self.keyID, "--team-id", Self.teamID, "--key-file", keyFile]
                + ["--answer-reuse", "\(answerReuse.components.seconds)"]
                + Self.clientIDs.flatMap { ["--client-id", $0] }
        )
        guard let line = await process.line(containing: "listening on http"), let url = line.split(separator: " ").last else {
            throw HarnessError("siwatch-simulator did not start: \(process.output.joined(separator: "\n"))")
        }
        (self.url, self.process, service, simulator) = (String(url), process, nil, nil)
    }

    /// Stops it, and returns its exit code once nothing listens there any more.
    @discardableResult
    package func stop() async -> Int32 {
        service?.cancel()
        _ = await service?.result
        process?.signal(SIGTERM)
        return await process?.exit() ?? 0
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

    package func signIn(_ count: Int, clientID: String = clientIDs[0]) async throws -> [SignIn] {
        try await send(SignUp(count, SignInOptions(clientID: clientID))).signIns
    }

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

    package func script(_ fault: Fault) async throws { try await send(fault) }
}
