// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import Crypto
import Foundation
import JWTKit
import Testing

@Suite("Client secrets are really checked")
struct ClientSecretTests {
    /// Asks with a good token and this secret, and tells which flaw the simulator saw behind Apple's mute `invalid_client`.
    private func flaw(_ secret: (Backend) async throws -> String) async throws -> ClientSecretFlaw? {
        var flaw: ClientSecretFlaw?
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            let answer = try await backend.refresh(user.refreshToken, secret: secret(backend))
            if answer.status == 200 { return }
            #expect(answer.text == #"{"error":"invalid_client"}"#)
            let flaws = simulator.counters.clientSecretFlaws
            #expect(flaws.values.reduce(0, +) == 1)
            flaw = flaws.keys.first
        }
        return flaw
    }

    @Test("A good one is good")
    func good() async throws {
        #expect(try await flaw { try await $0.secret() } == nil)
    }

    @Test("Rubbish", arguments: ["x", "a.b.c", "...", "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.e30.AA"])
    func malformed(secret: String) async throws {
        #expect(try await flaw { _ in secret } == .malformed)
    }

    @Test("Another team")
    func issuer() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.iss = "ZZZZZZZZZZ"
            return try await $0.sign(claims)
        }
        #expect(flaw == .wrongIssuer)
    }

    @Test("Another audience")
    func audience() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.aud = "https://account.apple.com"
            return try await $0.sign(claims)
        }
        #expect(flaw == .wrongAudience)
    }

    @Test("The secret of the Services ID for the App ID")
    func subject() async throws {
        #expect(try await flaw { try await $0.secret("com.example.web") } == .wrongSubject)
    }

    @Test("A token from the future")
    func issuedInFuture() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.iat = Int(Date().timeIntervalSince1970) + 90
            return try await $0.sign(claims)
        }
        #expect(flaw == .issuedInFuture)
    }

    @Test("An expired one")
    func expired() async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.exp = Int(Date().timeIntervalSince1970) - 1
            return try await $0.sign(claims)
        }
        #expect(flaw == .expired)
    }

    @Test("Six months are the limit", arguments: [(15_777_000 - 30, nil), (15_777_000 + 30, ClientSecretFlaw.livesTooLong)])
    func lifetime(seconds: Int, expected: ClientSecretFlaw?) async throws {
        let flaw = try await flaw {
            var claims = $0.claims()
            claims.exp = Int(Date().timeIntervalSince1970) + seconds
            return try await $0.sign(claims)
        }
        #expect(flaw == expected)
    }

    @Test("A key that is not registered")
    func unknownKey() async throws {
        #expect(try await flaw { try await $0.sign($0.claims(), as: "ZZZZZZZZZZ") } == .unknownKey)
    }

    @Test("A stranger's signature under a registered key id")
    func badSignature() async throws {
        let flaw = try await flaw {
            try await Backend(baseURL: $0.baseURL, key: .generate(id: $0.key.id)).secret()
        }
        #expect(flaw == .badSignature)
    }

    @Test("The DER form of a signature, as OpenSSL writes it")
    func derSignature() async throws {
        let flaw = try await flaw { backend in
            let parts = try await backend.secret().split(separator: ".")
            let signed = "\(parts[0]).\(parts[1])"
            let signature = try backend.key.privateKey.signature(for: Data(signed.utf8))
            return signed + "." + signature.derRepresentation.base64URL
        }
        #expect(flaw == .badSignature)
    }

    @Test("Another algorithm")
    func wrongAlgorithm() async throws {
        let flaw = try await flaw { backend in
            let keys = JWTKeyCollection()
            await keys.add(hmac: "0123456789abcdef0123456789abcdef", digestAlgorithm: .sha256, kid: JWKIdentifier(string: backend.key.id))
            return try await keys.sign(backend.claims(), kid: JWKIdentifier(string: backend.key.id))
        }
        #expect(flaw == .wrongAlgorithm)
    }

    @Test("Apple's clock decides, for a remembered secret too")
    func clock() async throws {
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            let secret = try await backend.secret()
            #expect(try await backend.refresh(user.refreshToken, secret: secret).status == 200)
            simulator.clockOffset = .seconds(-120)
            #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
            simulator.clockOffset = .seconds(4000)
            #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
            #expect(simulator.counters.clientSecretFlaws == [.issuedInFuture: 1, .expired: 1])
        }
    }

    @Test("A remembered secret of a revoked key is worthless")
    func revokedKey() async throws {
        try await withBackend { backend, simulator in
            let user = try simulator.createUser()
            let secret = try await backend.secret()
            #expect(try await backend.refresh(user.refreshToken, secret: secret).status == 200)
            try simulator.revokeKey(backend.key.id)
            #expect(try await backend.refresh(user.refreshToken, secret: secret)["error"] == "invalid_client")
            let new = ClientKey.generate(id: "NEWKEY1234")
            try simulator.register(new.registered, for: "com.example.web")
            #expect(try await Backend(baseURL: backend.baseURL, key: new).refresh(user.refreshToken).status == 200)
        }
    }

    @Test("The key of another app group")
    func foreignKey() async throws {
        let other = ClientKey.generate(id: "OTHER12345")
        try await withBackend {
            $0.groups.append(AppGroup(clientIDs: ["com.example.other"], keys: [other.registered]))
        } _: { backend, simulator in
            let user = try simulator.createUser()
            let answer = try await Backend(baseURL: backend.baseURL, key: other).refresh(user.refreshToken)
            #expect(answer["error"] == "invalid_client")
            #expect(simulator.counters.clientSecretFlaws == [.unknownKey: 1])
        }
    }

    @Test("A key survives its .p8 file")
    func pem() throws {
        let key = ClientKey.generate()
        #expect(key.pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(try ClientKey(id: key.id, pem: key.pem).privateKey.rawRepresentation == key.privateKey.rawRepresentation)
    }
}

extension Data {
    /// Written anew, so that a mistake in the simulator's own does not hide.
    var base64URL: String {
        base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
