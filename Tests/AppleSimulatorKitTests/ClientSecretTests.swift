// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

struct ClientSecretTests {
    /// Sends a good token with this secret, and returns the flaw that the simulator saw behind Apple's mute `invalid_client`.
    private func flaw(_ secret: (Backend) async throws -> String) async throws -> ClientSecretFlaw? {
        var flaw: ClientSecretFlaw?
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            let answer = try await backend.refresh(user.refreshToken, secret: secret(backend))
            if answer.status == 200 { return }
            #expect(answer.text == #"{"error":"invalid_client"}"#)
            let flaws = simulator.world.counters.clientSecretFlaws
            #expect(flaws.values.reduce(0, +) == 1)
            flaw = flaws.keys.first
        }
        return flaw
    }

    @Test func aGoodOneIsTaken() async throws {
        #expect(try await flaw { try await $0.secret() } == nil)
    }

    @Test(arguments: ["x", "a.b.c", "...", "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.e30.AA"])
    func rubbishIsRefused(secret: String) async throws {
        #expect(try await flaw { _ in secret } == .malformed)
    }

    @Test func anotherTeamIsRefused() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.iss = "ZZZZZZZZZZ"
            return try await $0.sign(claims)
        }
        #expect(flaw == .wrongIssuer)
    }

    @Test func anotherAudienceIsRefused() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.aud = "https://account.apple.com"
            return try await $0.sign(claims)
        }
        #expect(flaw == .wrongAudience)
    }

    @Test func theSecretOfAnotherClientIsRefused() async throws {
        #expect(try await flaw { try await $0.secret("com.example.web") } == .wrongSubject)
    }

    @Test func aSecretFromTheFutureIsRefused() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.iat = Int(Date().timeIntervalSince1970) + 90
            return try await $0.sign(claims)
        }
        #expect(flaw == .issuedInFuture)
    }

    @Test func anExpiredOneIsRefused() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.exp = Int(Date().timeIntervalSince1970) - 1
            return try await $0.sign(claims)
        }
        #expect(flaw == .expired)
    }

    @Test(arguments: [(15_777_000 - 30, nil), (15_777_000 + 30, ClientSecretFlaw.livesTooLong)])
    func sixMonthsAreTheLimit(seconds: Int, expected: ClientSecretFlaw?) async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.exp = Int(Date().timeIntervalSince1970) + seconds
            return try await $0.sign(claims)
        }
        #expect(flaw == expected)
    }

    @Test func aKeyThatIsNotRegisteredIsRefused() async throws {
        #expect(try await flaw { try await $0.sign($0.claims(), as: "ZZZZZZZZZZ") } == .unknownKey)
    }

    @Test func aStrangersSignatureUnderARegisteredKeyIDIsRefused() async throws {
        let flaw = try await flaw {
            try await Backend(baseURL: $0.baseURL, key: .generate(id: $0.key.id)).secret()
        }
        #expect(flaw == .badSignature)
    }

    @Test func theDERFormOfASignatureIsRefused() async throws {
        let flaw = try await flaw { backend in
            let parts = try await backend.secret().split(separator: ".")
            let signed = "\(parts[0]).\(parts[1])"
            let signature = try backend.key.privateKey.signature(for: Data(signed.utf8))
            return signed + "." + signature.derRepresentation.base64URL
        }
        #expect(flaw == .badSignature)
    }

    @Test func anotherAlgorithmIsRefused() async throws {
        let flaw = try await flaw { backend in
            let keys = JWTKeyCollection()
            await keys.add(hmac: "0123456789abcdef0123456789abcdef", digestAlgorithm: .sha256, kid: JWKIdentifier(string: backend.key.id))
            return try await keys.sign(backend.claims(), kid: JWKIdentifier(string: backend.key.id))
        }
        #expect(flaw == .wrongAlgorithm)
    }

    @Test func applesClockDecidesForARememberedSecretToo() async throws {
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            let secret = try await backend.secret()
            #expect(try await backend.refresh(user.refreshToken, secret: secret).status == 200)
            simulator.withWorld { $0.clockOffset = .seconds(-120) }
            #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
            simulator.withWorld { $0.clockOffset = .seconds(4000) }
            #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
            #expect(simulator.world.counters.clientSecretFlaws == [.issuedInFuture: 1, .expired: 1])
        }
    }

    @Test func aRememberedSecretOfARevokedKeyIsWorthless() async throws {
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            let secret = try await backend.secret()
            #expect(try await backend.refresh(user.refreshToken, secret: secret).status == 200)
            try simulator.withWorld { try $0.revokeKey(backend.key.id) }
            #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
            let new = ClientKey.generate(id: "NEWKEY1234")
            try simulator.withWorld { try $0.register(new.registered, for: "com.example.web") }
            #expect(try await Backend(baseURL: backend.baseURL, key: new).refresh(user.refreshToken).status == 200)
        }
    }

    @Test func theKeyOfAnotherAppGroupIsRefused() async throws {
        let other = ClientKey.generate(id: "OTHER12345")
        try await withBackend {
            $0.groups.append(AppGroup(clientIDs: ["com.example.other"], keys: [other.registered]))
        } _: { backend, simulator in
            let user = try simulator.createUser()
            let answer = try await Backend(baseURL: backend.baseURL, key: other).refresh(user.refreshToken)
            #expect(answer["error"] == "invalid_client")
            #expect(simulator.world.counters.clientSecretFlaws == [.unknownKey: 1])
        }
    }

    @Test func aKeySurvivesItsFile() throws {
        let key = ClientKey.generate()
        #expect(key.pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(try ClientKey(id: key.id, pem: key.pem).privateKey.rawRepresentation == key.privateKey.rawRepresentation)
    }
}

extension Data {
    /// Written anew, so that it cannot share a mistake with the simulator's own.
    var base64URL: String {
        base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
