// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto

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

/// The claims of an id_token, signed by Apple (OpenID Connect Core, section 2).
struct IdentityClaims {
    private let claims: ClaimSet

    /// - Throws: `malformed_claim` for a body that is not JSON, and for an event token, which the same keys sign.
    init(_ bytes: [UInt8]) throws(VerificationError) {
        claims = try ClaimSet(bytes)
        guard claims.members["events"] == nil else { throw .rejected(.malformedClaim, detail: "carries events") }
    }

    func identity(
        from issuers: Set<String>,
        for clientID: String,
        nonce: String?,
        at now: Timestamp,
        skew: Duration
    ) throws(VerificationError) -> VerifiedIdentity {
        try claims.checkIssuer(issuers)
        _ = try claims.audience(among: [clientID])
        let issuedAt = try checkDates(at: now, skew: skew)
        if let nonce { try check(nonce) }
        return VerifiedIdentity(
            userID: try claims.name("sub"),
            issuedAt: issuedAt,
            address: address,
            realUserStatus: realUserStatus
        )
    }

    private var realUserStatus: Int? {
        guard case .integer(let number) = claims["real_user_status"], (0...9).contains(number) else { return nil }
        return Int(number)
    }

    private func checkDates(at now: Timestamp, skew: Duration) throws(VerificationError) -> Timestamp {
        let (issuedAt, expiry) = (try claims.date("iat"), try claims.date("exp"))
        guard issuedAt <= now.advanced(by: skew), Timestamp.legal.contains(issuedAt) else {
            throw .rejected(.issuedInFuture, detail: "iat \(issuedAt.milliseconds / 1000)")
        }
        guard now < expiry.advanced(by: skew) else { throw .rejected(.expired, detail: "exp \(expiry.milliseconds / 1000)") }
        return issuedAt
    }

    /// Checks the nonce. A device that cannot carry a nonce says so in `nonce_supported`; without that claim it can.
    private func check(_ nonce: String) throws(VerificationError) {
        if claims["nonce"] == nil, [.bool(false), .string("false")].contains(claims["nonce_supported"]) { return }
        guard let given = claims["nonce"]?.string, given.isIdentical(to: nonce) else {
            throw .rejected(claims["nonce"] == nil ? .missingClaim : .malformedClaim, detail: "nonce: \(difference(from: nonce))")
        }
    }

    /// Which mistake a wrong nonce is. Backends show it, so it has neither nonce.
    private func difference(from nonce: String) -> String {
        func hash(_ text: String) -> String { SHA256.hash(data: Array(text.utf8)).map(\.hexadecimal).joined() }
        guard let given = claims["nonce"] else { return "the token has none" }
        if given.string?.lowercased() == hash(nonce) { return "the token has the SHA-256 of yours" }
        return given.string.map(hash) == nonce.lowercased() ? "yours is the SHA-256 of the token's" : "the token has another"
    }

    /// Nil if the address cannot be read, because an address is no reason to refuse a sign-in. It is empty for some school accounts.
    private var address: EmailAddress? {
        guard let email = claims["email"], email != .string(""), let text = try? claims.name("email") else { return nil }
        return EmailAddress(text, isPrivate: (try? claims.isPrivateEmail()) ?? nil)
    }
}
