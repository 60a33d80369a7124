// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Crypto
import CryptoExtras
import JWTKit
import Testing

@testable import AppleIdentity

@Suite struct ClientSecretsTests {
    private struct Claims: JWTPayload {
        var iss: String
        var iat: Int64
        var exp: Int64
        var aud: String
        var sub: String

        func verify(using algorithm: some JWTAlgorithm) {}
    }

    private let clock = TestClock(now: AppleFixture.now)
    private let privateKey = P256.Signing.PrivateKey()

    private func makeSecrets(team: String = "A1B2C3D4E5", key: P256.Signing.PrivateKey? = nil) throws -> ClientSecrets {
        let key = try ClientSecretKey(id: "ABC123DEFG", text: Secret((key ?? privateKey).pemRepresentation))
        return ClientSecrets(teamID: team, key: key, clock: clock.wallClock)
    }

    /// A wrong file under the right name is another key. The right key for another team is another key, too.
    @Test func aKeyIsKnownByWhatItIs() throws {
        let identity = try makeSecrets().identity(of: "com.example.app")
        #expect(try makeSecrets().identity(of: "com.example.app") == identity, "the same after a restart")
        #expect(try makeSecrets(key: P256.Signing.PrivateKey()).identity(of: "com.example.app").keyID != identity.keyID)
        #expect(try makeSecrets(team: "Z1B2C3D4E5").identity(of: "com.example.app").keyID != identity.keyID)
    }

    @Test func saysWhatAppleAsksFor() async throws {
        let secret = try await makeSecrets().secret(for: "com.example.app").secret.reveal
        let parts = secret.split(separator: ".").map { Base64URL.decode($0.utf8)! }
        let signed = secret.prefix(upTo: secret.lastIndex(of: ".")!)
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: parts[2])
        #expect(privateKey.publicKey.isValidSignature(signature, for: Array(signed.utf8)))

        let header = try #require(JSON(parts[0])?.object)
        #expect(header["alg"] == .string("ES256"))
        #expect(header["kid"] == .string("ABC123DEFG"))
        let now = clock.now.milliseconds / 1000
        let claims: [String: JSON] = [
            "iss": .string("A1B2C3D4E5"), "sub": .string("com.example.app"), "aud": .string("https://appleid.apple.com"),
            "iat": .integer(now - 60), "exp": .integer(now + 3600),
        ]
        #expect(JSON(parts[1]) == .object(claims))

        let keys = await JWTKeyCollection().add(ecdsa: try ES256PublicKey(pem: privateKey.publicKey.pemRepresentation))
        #expect(try await keys.verify(secret, as: Claims.self).sub == "com.example.app")
    }

    @Test func oneForAnotherProgramLastsAsLongAsItIsAsked() async throws {
        let secrets = try makeSecrets()
        let (secret, end) = try await secrets.secret(for: "com.example.web", lasting: .days(180))
        #expect(end == clock.now.advanced(by: .days(180)))
        let claims = JSON(Base64URL.decode(secret.reveal.split(separator: ".")[1].utf8)!)?.object
        #expect(claims?["exp"] == .integer(end.milliseconds / 1000) && claims?["sub"] == .string("com.example.web"))
        #expect(try await secrets.secret(for: "com.example.web").secret != secret, "siwatch itself uses none that lasts so long")
    }

    @Test func isKeptForHalfItsLifeUnlessTheClockIsSetBack() async throws {
        let secrets = try makeSecrets()
        let first = try await secrets.secret(for: "com.example.app").secret
        #expect(try await secrets.secret(for: "com.example.web").secret != first)
        clock.advance(by: .seconds(1799))
        #expect(try await secrets.secret(for: "com.example.app").secret == first)
        clock.advance(by: .seconds(1))
        let second = try await secrets.secret(for: "com.example.app").secret
        #expect(second != first)
        clock.set(to: clock.now.advanced(by: .seconds(-3600)))
        #expect(try await secrets.secret(for: "com.example.app").secret != second)
    }

    @Test func takesAFileThatAnEditorHasTouched() throws {
        let pem = privateKey.pemRepresentation
        for edited in [pem.replacing("\n", with: "\r\n"), pem + "\n\n", "\n" + pem, pem.replacing("\n", with: "")] {
            _ = try ClientSecretKey(id: "K", text: Secret(edited))
        }
    }

    @Test func explainsAKeyThatIsNone() {
        let remedy = "give the AuthKey_K.p8 file as Apple issued it"
        let notPEM = "key K is not a private key in PEM, base64 or DER; \(remedy)"
        let notP256 = "key K is not a private key on P-256: it is damaged, encrypted or of another kind"
        let wrong = [
            ("", notPEM),
            ("MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQg", notPEM),
            (privateKey.publicKey.pemRepresentation, "key K is not a private key; \(remedy)"),
            (P384.Signing.PrivateKey().pemRepresentation, notP256),
            (AppleFixture.apple.privateKey.pemRepresentation, notP256),
            (String(privateKey.pemRepresentation.prefix(80)), notP256),
            (privateKey.pemRepresentation + privateKey.pemRepresentation, "the file of key K holds several private keys; \(remedy)"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGTAgEA\n-----END ENCRYPTED PRIVATE KEY-----", notP256),
        ]
        for (pem, sentence) in wrong {
            #expect(throws: UnusableClientSecretKey(description: sentence)) { try ClientSecretKey(id: "K", text: Secret(pem)) }
        }
    }

    /// A 200 that proved the old key says nothing about the new one.
    @Test func anotherKeySignsFromNowOn() async throws {
        let secrets = try makeSecrets()
        let first = try await secrets.secret(for: "com.example.app")
        secrets.use(try ClientSecretKey(id: "NEWKEY1234", text: Secret(P256.Signing.PrivateKey().pemRepresentation)))
        let second = try await secrets.secret(for: "com.example.app")
        #expect(second.identity.keyID.hasPrefix("NEWKEY1234 ") && second.identity.load == 1)
        #expect(first.identity.keyID.hasPrefix("ABC123DEFG ") && first.identity.load == 0)
        #expect(second.secret != first.secret)
        let old = try ClientSecretKey(id: "ABC123DEFG", text: Secret(privateKey.pemRepresentation))
        #expect(secrets.use(old))
        #expect(!secrets.use(old), "the same key read again is no other one")
    }
}
