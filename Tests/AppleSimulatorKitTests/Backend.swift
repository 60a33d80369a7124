// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import Foundation
import JWTKit
import NIOCore
import NIOFoundationCompat
import NIOHTTP1
import Testing

@testable import AppleSimulatorKit

/// An app's backend as Apple sees it. It asks over real HTTP and signs its client secrets with jwt-kit, which the simulator does not use.
struct Backend {
    let baseURL: String
    let key: ClientKey
    var teamID = "A1B2C3D4E5"
    var clientID = "com.example.app"

    // MARK: Apple's endpoints

    func refresh(_ token: String?, clientID: String? = nil, secret: String? = nil) async throws -> Answer {
        try await ask("token", [("grant_type", "refresh_token"), ("refresh_token", token ?? "")], as: clientID, secret)
    }

    func redeem(_ code: String?, clientID: String? = nil, secret: String? = nil, redirectURI: String? = nil) async throws -> Answer {
        let redirect = redirectURI.map { [("redirect_uri", $0)] } ?? []
        return try await ask("token", [("grant_type", "authorization_code"), ("code", code ?? "")] + redirect, as: clientID, secret)
    }

    func revoke(_ token: String?, clientID: String? = nil, secret: String? = nil) async throws -> Answer {
        try await ask("revoke", [("token", token ?? ""), ("token_type_hint", "refresh_token")], as: clientID, secret)
    }

    func prove(_ clientID: String? = nil, scope: String = "user.migration", secret: String? = nil) async throws -> Answer {
        try await ask("token", [("grant_type", "client_credentials"), ("scope", scope)], as: clientID, secret)
    }

    /// Posts fields with the client and its secret, which is a good one unless `secret` says otherwise.
    private func ask(_ path: String, _ fields: [(String, String)], as clientID: String?, _ secret: String?) async throws -> Answer {
        var secret = secret
        if secret == nil { secret = try await self.secret(clientID) }
        let client = [("client_id", clientID ?? self.clientID), ("client_secret", secret ?? "")]
        return try await post("/auth/\(path)", fields + client)
    }

    func keys() async throws -> JWTKeyCollection {
        let document = try await get("/auth/keys").text
        return try await JWTKeyCollection().add(jwksJSON: document)
    }

    // MARK: The client secret

    struct SecretClaims: JWTPayload {
        var iss: String
        var sub: String
        var aud = "https://appleid.apple.com"
        var iat = Int(Date().timeIntervalSince1970) - 60
        var exp = Int(Date().timeIntervalSince1970) + 3600

        func verify(using algorithm: some JWTAlgorithm) {}
    }

    func claims(_ clientID: String? = nil) -> SecretClaims { SecretClaims(iss: teamID, sub: clientID ?? self.clientID) }
    func secret(_ clientID: String? = nil) async throws -> String { try await sign(claims(clientID)) }

    func sign(_ claims: SecretClaims, as kid: String? = nil) async throws -> String {
        let keys = JWTKeyCollection()
        await keys.add(ecdsa: try ES256PrivateKey(pem: key.pem), kid: JWKIdentifier(string: kid ?? key.id))
        return try await keys.sign(claims, kid: JWKIdentifier(string: kid ?? key.id))
    }

    // MARK: HTTP

    func get(_ path: String, timeout: Duration = .seconds(30)) async throws -> Answer { try await send(.GET, path, timeout: timeout) }
    func delete(_ path: String) async throws -> Answer { try await send(.DELETE, path) }
    func put(_ path: String, json: String) async throws -> Answer { try await send(.PUT, path, "application/json", json) }
    func post(_ path: String, json: String) async throws -> Answer { try await send(.POST, path, "application/json", json) }

    func post(_ path: String, form: String) async throws -> Answer {
        try await send(.POST, path, "application/x-www-form-urlencoded", form)
    }

    func post(_ path: String) async throws -> Answer { try await send(.POST, path) }

    func post(_ path: String, _ fields: [(String, String)]) async throws -> Answer {
        try await post(path, form: fields.map { "\(Self.escaped($0))=\(Self.escaped($1))" }.joined(separator: "&"))
    }

    private func send(
        _ method: HTTPMethod,
        _ path: String,
        _ type: String? = nil,
        _ body: String? = nil,
        timeout: Duration = .seconds(30)
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: baseURL + path)
        request.method = method
        request.headers.add(name: "User-Agent", value: "tests")
        if let type { request.headers.add(name: "Content-Type", value: type) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await HTTPClient.shared.execute(request, timeout: TimeAmount(timeout))
        let bytes = try await response.body.collect(upTo: 16 * 1024 * 1024)
        return Answer(status: response.status.code, headers: response.headers, body: Data(buffer: bytes))
    }

    private static func escaped(_ text: String) -> String { text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "" }
}

struct Answer {
    let status: UInt
    fileprivate let headers: HTTPHeaders
    let body: Data

    func header(_ name: String) -> String? { headers.first(name: name) }
    var text: String { String(decoding: body, as: UTF8.self) }
    var isEmpty200: Bool { status == 200 && body.isEmpty }
    func decoded<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value { try JSONDecoder().decode(type, from: body) }

    /// A string member of the body's JSON object.
    subscript(name: String) -> String? { (try? JSONSerialization.jsonObject(with: body) as? [String: Any])?[name] as? String }
}

// A debug build takes a while to make an RSA key.
private let signingKey = Result { try SigningKey() }

// Of the running test, whose suite has the trait `.simulated`.
var backend: Backend { SimulatorTrait.current!.0 }
var simulator: AppleSimulator { SimulatorTrait.current!.1 }

/// Starts a simulator with the usual app group for each test.
struct SimulatorTrait: SuiteTrait, TestTrait, TestScoping {
    @TaskLocal fileprivate static var current: (Backend, AppleSimulator)?

    var isRecursive: Bool { true }

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        try await Self.$current.withValue(startBackend()) { try await function() }
    }
}

extension Trait where Self == SimulatorTrait {
    static var simulated: Self { Self() }
}

/// Starts a simulator with the usual app group. It runs until the process ends.
func startBackend(_ adjust: (inout SimulatorConfiguration) -> Void = { _ in }) async throws -> (Backend, AppleSimulator) {
    let key = ClientKey.generate()
    var configuration = SimulatorConfiguration(groups: [AppGroup(keys: [key.registered])])
    configuration.signingKey = try signingKey.get()
    configuration.signingKeyCount = 1
    adjust(&configuration)
    let (simulator, baseURL, _) = try await AppleSimulator.start(configuration)
    return (Backend(baseURL: baseURL, key: key), simulator)
}

/// Common messages without HTTP.
extension AppleSimulator {
    var world: AppleWorld { withWorld { $0 } }

    @discardableResult
    func script(_ fault: Fault) -> Int { withWorld { $0.faults.add(fault) } }

    func createUsers(_ count: Int, address: AddressKind = .relay, _ options: SignInOptions = SignInOptions()) throws -> [SignIn] {
        try SignUp(count, address: address, options).happen(in: self).signIns
    }

    func createUser(address: AddressKind = .relay, _ options: SignInOptions = SignInOptions()) throws -> SignIn {
        try createUsers(1, address: address, options)[0]
    }

    func signIn(_ userID: String, _ options: SignInOptions = SignInOptions()) throws -> SignIn {
        try SignInAgain(.these([userID]), options).happen(in: self).signIns[0]
    }

    func notify(
        _ event: some PeopleEvent,
        of people: People,
        clientID: String? = nil,
        _ emission: Emission = Emission()
    ) async throws -> [SignedNotification] {
        try await EventMessage(event, of: people, clientID: clientID, emission).happen(in: self).notifications
    }
}
