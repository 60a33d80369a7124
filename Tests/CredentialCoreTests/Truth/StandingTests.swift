// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Every rule of the table. Its registers differ by one less, zero and one more, and each rule meets those below it.
@Suite struct StandingTests {
    @Test(arguments: [
        // Nothing, and a grant.
        Case([:], .notFound, .neverGranted, since: nil),
        Case([.g: 5], .authorized, .granted, since: 5),

        // D > G. Equality favours the grant.
        Case([.d: 5], .notFound, .accountDeleted, since: 5),
        Case([.g: 5, .d: 4], .authorized, .granted, since: 5),
        Case([.g: 5, .d: 5], .authorized, .granted, since: 5),
        Case([.g: 5, .d: 6], .notFound, .accountDeleted, since: 6),

        // B ≥ G. The request named that sign-in, so equality revokes.
        Case([.b: 5], .revoked, .revokedByApp, since: 5),
        Case([.g: 5, .b: 4], .authorized, .granted, since: 5),
        Case([.g: 5, .b: 5], .revoked, .revokedByApp, since: 5),
        Case([.g: 5, .b: 6], .revoked, .revokedByApp, since: 6),

        // A ≥ G, like B, and the newer of the two counts. At a client without a grant it has nothing to end.
        Case([.a: 5], .notFound, .neverGranted, since: nil),
        Case([.g: 5, .a: 4], .authorized, .granted, since: 5),
        Case([.g: 5, .a: 5], .revoked, .revokedByApp, since: 5),
        Case([.g: 5, .a: 6], .revoked, .revokedByApp, since: 6),
        Case([.g: 5, .b: 5, .a: 6], .revoked, .revokedByApp, since: 6),
        Case([.g: 5, .b: 6, .a: 5], .revoked, .revokedByApp, since: 6),
        Case([.g: 5, .b: 4, .a: 4], .authorized, .granted, since: 5),
        Case([.b: 3, .a: 5], .revoked, .revokedByApp, since: 3),
        Case([.a: 5, .r: 6], .revoked, .consentRevoked, since: 6),
        Case([.g: 5, .d: 6, .a: 9], .notFound, .accountDeleted, since: 6),
        Case([.g: 5, .a: 6, .r: 9, .x: 9], .revoked, .revokedByApp, since: 6),
        // A later 200 restores no authorization.
        Case([.g: 5, .t: 5, .v: 9, .a: 6], .revoked, .revokedByApp, since: 6),

        // R > G. Equality favours the grant.
        Case([.r: 5], .revoked, .consentRevoked, since: 5),
        Case([.g: 5, .r: 4], .authorized, .granted, since: 5),
        Case([.g: 5, .r: 5], .authorized, .granted, since: 5),
        Case([.g: 5, .r: 6], .revoked, .consentRevoked, since: 6),

        // A token that Apple never accepted ends nothing.
        Case([.g: 5, .t: 5, .x: 4], .authorized, .granted, since: 5),
        Case([.g: 5, .t: 5, .x: 6], .authorized, .granted, since: 5),
        Case([.g: 5, .t: 6, .x: 9], .authorized, .granted, since: 5),

        // X > V: equality favours the 200. The token ended after V, and after its sign-in.
        Case([.g: 5, .t: 5, .v: 7, .x: 6], .authorized, .granted, since: 5),
        Case([.g: 5, .t: 5, .v: 6, .x: 6], .authorized, .granted, since: 5),
        Case([.g: 5, .t: 5, .v: 7, .x: 9], .revoked, .tokenRejected, since: 7),
        Case([.g: 5, .t: 5, .v: 6, .x: 7], .revoked, .tokenRejected, since: 6),
        Case([.g: 5, .t: 5, .v: 5, .x: 7], .revoked, .tokenRejected, since: 6),
        Case([.g: 5, .t: 5, .v: 9], .authorized, .granted, since: 5),

        // The grant's time is Apple's, and an answer's may be the host's. A slow clock hides nothing.
        Case([.g: 5, .t: 5, .v: 3, .x: 4], .revoked, .tokenRejected, since: 6),
        Case([.g: 5, .t: 6, .v: 4, .x: 5], .revoked, .tokenRejected, since: 6),

        // The end of a token older than the sign-in counts if Apple accepted the token since.
        Case([.g: 5, .t: 4, .x: 6], .authorized, .granted, since: 5),
        Case([.g: 5, .t: 3, .v: 4, .x: 6], .authorized, .granted, since: 5),
        Case([.g: 5, .v: 4, .x: 6], .authorized, .granted, since: 5),
        Case([.g: 5, .t: 3, .v: 5, .x: 6], .revoked, .tokenRejected, since: 6),
        Case([.g: 5, .t: 3, .v: 7, .x: 9], .revoked, .tokenRejected, since: 7),

        // The first rule that holds, not the newest register.
        Case([.g: 5, .d: 6, .b: 9, .r: 9, .x: 9], .notFound, .accountDeleted, since: 6),
        Case([.g: 5, .b: 6, .r: 9, .x: 9], .revoked, .revokedByApp, since: 6),
        Case([.g: 5, .b: 5, .r: 6], .revoked, .revokedByApp, since: 5),
        Case([.g: 5, .r: 6, .x: 9], .revoked, .consentRevoked, since: 6),
        Case([.d: 3, .b: 9, .r: 9], .notFound, .accountDeleted, since: 3),
        Case([.b: 3, .r: 9], .revoked, .revokedByApp, since: 3),
        Case([.g: 5, .d: 5, .b: 5], .revoked, .revokedByApp, since: 5),
        Case([.g: 5, .d: 5, .r: 6], .revoked, .consentRevoked, since: 6),
        Case([.g: 5, .d: 6, .r: 6], .notFound, .accountDeleted, since: 6),
        Case([.g: 5, .d: 4, .b: 4, .r: 5, .v: 6, .x: 6], .authorized, .granted, since: 5),

        // An impossible case, and still an answer about no sign-in.
        Case([.x: 5], .notFound, .neverGranted, since: nil),
    ])
    fileprivate func theFirstRuleThatHoldsSaysTheState(_ each: Case) {
        var user = AppUser()
        user.deletedAt = each[.d]
        user.consentRevokedAt = each[.r]
        user.revokedAt = each[.a]
        var credential = Credential()
        credential.grantedAt = each[.g]
        credential.revokedAt = each[.b]
        credential.token = each[.t].map { RefreshToken(key: RefreshToken.Key(grantedAt: $0, fingerprint: []), sealed: nil) }
        credential.verifiedAt = each[.v]
        credential.rejectedAt = each[.x]
        #expect(credential.standing(under: user) == each.standing)
    }
}

private enum Register: String {
    case g, d, a, b, r, t, v, x
}

private struct Case: Sendable, CustomTestStringConvertible {
    let registers: [Register: Int64]
    let standing: CredentialStanding

    init(_ registers: [Register: Int64], _ state: CredentialState, _ reason: StateReason, since: Int64?) {
        self.registers = registers
        standing = CredentialStanding(state, reason, since: since.map(at))
    }

    subscript(register: Register) -> Timestamp? { registers[register].map(at) }

    var testDescription: String {
        let values = registers.map { "\($0.rawValue.uppercased()) \($1)" }.sorted().joined(separator: ", ")
        return "\(values.isEmpty ? "nothing" : values) → \(standing.reason.rawValue)"
    }
}
