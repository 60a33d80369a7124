// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Crypto

/// Verifies the id_token of a sign-in with Apple's published keys.
package struct AppleIdentityTokenVerifier: IdentityTokenVerifier {
    private let keys: SigningKeys
    private let policy: NotificationPolicy
    private let clock: WallClock

    package init(keys: SigningKeys, policy: NotificationPolicy, clock: WallClock) {
        (self.keys, self.policy, self.clock) = (keys, policy, clock)
    }

    package var hasKeys: Bool { keys.count > 0 }

    package func verify(
        _ token: Secret,
        issuedTo clientID: String,
        nonce: String?,
        at now: Timestamp
    ) async throws(VerificationError) -> VerifiedIdentity {
        let bytes = Array(token.reveal.utf8)
        guard bytes.count <= NotificationBody.largest else { throw .rejected(.malformed, detail: "larger than 64 KiB") }
        return try ClaimSet(keys.claims(of: bytes[...], receivedAt: clock.now, skew: policy.clockSkew))
            .identity(for: clientID, nonce: nonce, at: now, under: policy)
    }
}

/// The claims of an id_token, signed by Apple (OpenID Connect Core, section 2).
extension ClaimSet {
    /// - Throws: also for an event token, which the same keys sign.
    fileprivate func identity(
        for clientID: String,
        nonce: String?,
        at now: Timestamp,
        under policy: NotificationPolicy
    ) throws(VerificationError) -> VerifiedIdentity {
        guard members["events"] == nil else { throw .rejected(.malformedClaim, detail: "carries events") }
        try checkIssuer(policy.issuers)
        _ = try audience(among: [clientID])
        let issuedAt = try checkDates(at: now, skew: policy.clockSkew)
        if let nonce { try check(nonce) }
        return VerifiedIdentity(userID: try name("sub"), issuedAt: issuedAt, address: address, realUserStatus: realUserStatus)
    }

    private var realUserStatus: Int? {
        guard case .integer(let number) = self["real_user_status"], (0...9).contains(number) else { return nil }
        return Int(number)
    }

    private func checkDates(at now: Timestamp, skew: Duration) throws(VerificationError) -> Timestamp {
        let (issuedAt, expiry) = (try date("iat"), try date("exp"))
        guard issuedAt <= now.advanced(by: skew), Timestamp.legal.contains(issuedAt) else {
            throw .rejected(.issuedInFuture, detail: "iat \(issuedAt.milliseconds / 1000)")
        }
        guard now < expiry.advanced(by: skew) else { throw .rejected(.expired, detail: "exp \(expiry.milliseconds / 1000)") }
        return issuedAt
    }

    /// Checks the nonce. A device that cannot carry a nonce says so in `nonce_supported`; without that claim it can.
    private func check(_ nonce: String) throws(VerificationError) {
        if self["nonce"] == nil, [.bool(false), .string("false")].contains(self["nonce_supported"]) { return }
        guard let given = self["nonce"]?.string, given.isIdentical(to: nonce) else {
            throw .rejected(self["nonce"] == nil ? .missingClaim : .malformedClaim, detail: "nonce: \(difference(from: nonce))")
        }
    }

    /// Which mistake a wrong nonce is. Backends show it, so it has neither nonce.
    private func difference(from nonce: String) -> String {
        func hash(_ text: String) -> String { SHA256.hash(data: Array(text.utf8)).map(\.hexadecimal).joined() }
        guard let given = self["nonce"] else { return "the token has none" }
        if given.string?.lowercased() == hash(nonce) { return "the token has the SHA-256 of yours" }
        return given.string.map(hash) == nonce.lowercased() ? "yours is the SHA-256 of the token's" : "the token has another"
    }

    /// Nil if the address cannot be read, because an address is no reason to refuse a sign-in. It is empty for some school accounts.
    private var address: EmailAddress? {
        guard let email = self["email"], email != .string(""), let text = try? name("email") else { return nil }
        return EmailAddress(text, isPrivate: (try? isPrivateEmail()) ?? nil)
    }
}
