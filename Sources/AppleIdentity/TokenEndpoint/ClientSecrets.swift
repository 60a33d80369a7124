// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import JWTKit
import NIOConcurrencyHelpers

/// Makes the `client_secret` of each client of one team, an ES256 JWT, and caches it. An App ID and a Services ID need one each.
package final class ClientSecrets: Sendable {
    private let teamID: String
    private let clock: WallClock
    private let state: NIOLockedValueBox<State>

    private struct State {
        let key: ClientSecretKey
        /// With a fingerprint, because what Apple said to a wrong key proves nothing about the right key under the same id.
        let keyID: String
        let teamID: String
        /// How often the key was replaced.
        let load: Int
        var minted: [String: Minted] = [:]

        init(_ key: ClientSecretKey, of teamID: String, load: Int = 0) {
            keyID = "\(key.id) \(key.fingerprint(with: teamID))"
            (self.key, self.teamID, self.load) = (key, teamID, load)
        }

        func identity(of clientID: String) -> ClientIdentity {
            ClientIdentity(clientID: clientID, keyID: keyID, teamID: teamID, load: load)
        }
    }

    /// The longest life that Apple allows, by its own clock: about six months.
    package static let longestLifetime = Duration.seconds(15_777_000)
    /// A leaked secret is useful for at most an hour.
    static let lifetime = Duration.hours(1)
    /// How far `iat` lies in the past, because Apple answers `invalid_client` to a token from the future.
    static let backdating = Duration.minutes(1)
    /// The same for every endpoint.
    package static let audience = "https://appleid.apple.com"

    package init(teamID: String, key: ClientSecretKey, clock: WallClock) {
        (self.teamID, self.clock) = (teamID, clock)
        state = NIOLockedValueBox(State(key, of: teamID))
    }

    /// Signs with this key from now on. True if it is another one: then proofs under the old one no longer count.
    @discardableResult
    package func use(_ key: ClientSecretKey) -> Bool {
        state.withLockedValue { state in
            guard state.key != key else { return false }
            state = State(key, of: teamID, load: state.load + 1)
            return true
        }
    }

    package func identity(of clientID: String) -> ClientIdentity { state.withLockedValue { $0.identity(of: clientID) } }

    /// A secret with at least half of its life left. Two callers at once may both make one, and both are good.
    package func secret(for clientID: String) async throws -> (secret: Secret, identity: ClientIdentity) {
        let now = clock.now
        let (kept, key, identity) = state.withLockedValue { ($0.minted[clientID], $0.key, $0.identity(of: clientID)) }
        if let kept, kept.isFresh(at: now) { return (kept.secret, identity) }
        let new = Minted(secret: try await mint(for: clientID, with: key, at: now, lasting: Self.lifetime), at: now)
        state.withLockedValue { state in
            if state.load == identity.load { state.minted[clientID] = new }
        }
        return (new.secret, identity)
    }

    /// A new secret for another program, good for `longestLifetime` at most.
    package func secret(for clientID: String, lasting lifetime: Duration) async throws -> (secret: Secret, end: Timestamp) {
        let now = clock.now
        let secret = try await mint(for: clientID, with: state.withLockedValue(\.key), at: now, lasting: lifetime)
        return (secret, now.advanced(by: lifetime))
    }

    private func mint(for clientID: String, with key: ClientSecretKey, at now: Timestamp, lasting life: Duration) async throws -> Secret {
        let keys = await JWTKeyCollection().add(ecdsa: key.privateKey)
        let claims = ClientSecretClaims(
            iss: teamID,
            iat: now.advanced(by: .zero - Self.backdating).milliseconds / 1000,
            exp: now.advanced(by: life).milliseconds / 1000,
            aud: Self.audience,
            sub: clientID
        )
        return Secret(try await keys.sign(claims, header: ["kid": .string(key.id)]))
    }

    private struct Minted {
        let secret: Secret
        let at: Timestamp

        /// Whether it is in the first half of its life, and no secret from the future.
        func isFresh(at now: Timestamp) -> Bool {
            at <= now.advanced(by: ClientSecrets.backdating) && now < at.advanced(by: ClientSecrets.lifetime / 2)
        }
    }
}

private struct ClientSecretClaims: JWTPayload {
    var iss: String
    /// In seconds.
    var iat, exp: Int64
    var aud, sub: String

    /// siwatch only signs these.
    func verify(using algorithm: some JWTAlgorithm) {}
}
