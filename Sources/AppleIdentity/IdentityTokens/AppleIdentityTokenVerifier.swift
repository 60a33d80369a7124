// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// Verifies the id_token of a sign-in with Apple's published keys.
package struct AppleIdentityTokenVerifier: IdentityTokenVerifier {
    private let keys: SigningKeys
    private let issuers: Set<String>
    private let clockSkew: Duration
    private let clock: WallClock

    package init(keys: SigningKeys, issuers: Set<String>, clockSkew: Duration, clock: WallClock) {
        self.keys = keys
        self.issuers = issuers
        self.clockSkew = clockSkew
        self.clock = clock
    }

    package var hasKeys: Bool { keys.count > 0 }

    package func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity {
        let bytes = Array(token.reveal.utf8)
        guard bytes.count <= Self.largest else { throw .rejected(.malformed, detail: "larger than 64 KiB") }
        let jws = try CompactJWS(bytes[...])
        guard let key = keys.key(jws.keyID) else {
            throw keys.absence(of: jws.keyID, receivedAt: clock.now, skew: clockSkew)
        }
        guard key.isValid(jws.signature, over: jws.signedBytes) else { throw .rejected(.badSignature, detail: jws.keyID) }
        let claims = try IdentityClaims(jws.claims)
        return try claims.identity(from: issuers, for: clientID, nonce: nonce, at: now, skew: clockSkew)
    }

    /// In bytes.
    private static let largest = 65_536
}
