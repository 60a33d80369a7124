// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

@Suite struct CredentialTests {
    private let old = RefreshToken.Key(grantedAt: at(5), fingerprint: [1])
    private let new = RefreshToken.Key(grantedAt: at(6), fingerprint: [0])

    @Test func anOlderFactMovesNothing() {
        var credential = Credential(granted: old)
        credential.revoke(at: at(9))
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(9)))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(9)))
        var before = credential

        let older = RefreshToken.Key(grantedAt: at(4), fingerprint: [9])
        credential.apply(Grant(grantedAt: at(4), token: .sealedForTest(older)))
        #expect(credential.olderTokens.keys == [older], "all that is kept of it")
        before.olderTokens = credential.olderTokens
        credential.revoke(at: at(8))
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(8)))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(8)))
        #expect(credential == before)
    }

    @Test func aNewTokenStartsWithoutAnswers() {
        var credential = Credential(granted: old, acceptedAt: at(7))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(8)))
        #expect(credential.verifiedAt == at(7))
        #expect(credential.rejectedAt == at(8))

        credential.apply(Grant(grantedAt: at(6), token: .sealedForTest(new)))
        #expect(credential.token?.key == new)
        #expect(credential.verifiedAt == nil)
        #expect(credential.rejectedAt == nil)
    }

    @Test func theSameTokenAgainChangesNothing() {
        var credential = Credential(granted: old, acceptedAt: at(7))
        let before = credential
        credential.apply(Grant(grantedAt: at(5), token: RefreshToken(key: old, sealed: SealedToken(bytes: [9]))))
        #expect(credential == before)
    }

    @Test func ofTwoTokensAtOneTimeTheGreaterFingerprintStays() {
        let greater = RefreshToken.Key(grantedAt: at(5), fingerprint: [0x80])
        for keys in [[old, greater], [greater, old]] {
            var credential = Credential()
            for key in keys { credential.apply(Grant(grantedAt: at(5), token: .sealedForTest(key))) }
            #expect(credential.token?.key == greater)
        }
    }

    @Test func aSignInWithoutATokenLeavesTheOldOneInUse() {
        var credential = Credential(granted: old, acceptedAt: at(7))
        credential.apply(Grant(grantedAt: at(9)))
        #expect(credential.grantedAt == at(9))
        #expect(credential.tokenToCheck(under: AppUser())?.key == old)
        #expect(credential.verifiedAt == at(7))
    }

    @Test func anAnswerAboutAnotherTokenIsDropped() {
        var credential = Credential(granted: new)
        let before = credential
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(9)))
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(9)))
        #expect(credential == before)

        var empty = Credential()
        empty.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(9)))
        #expect(empty == Credential())
    }

    @Test(arguments: [4, 5, 6] as [Int64]) func aTokenIsUsableWhileNotOlderThanEventsAndNewerThanRevocations(_ time: Int64) {
        let credential = Credential(granted: old)
        for kind in [Event.Kind.accountDeleted, .consentRevoked] {
            var user = AppUser()
            user.apply(Event(kind, at: at(time)))
            #expect(credential.isTokenUsable(under: user) == (time <= 5), "\(kind)")
        }
        var revoked = credential
        revoked.revoke(at: at(time))
        #expect(revoked.isTokenUsable(under: AppUser()) == (time < 5))

        var revokedElsewhere = AppUser()
        revokedElsewhere.revoke(at: at(time))
        #expect(credential.isTokenUsable(under: revokedElsewhere) == (time < 5))
    }

    @Test func anUnusableTokenIsErasedAndItsKeyStays() {
        var credential = Credential(granted: old)
        credential.eraseUnusableToken(under: AppUser())
        #expect(credential.token == .sealedForTest(old))

        var user = AppUser()
        user.apply(Event(.consentRevoked, at: at(6)))
        credential.eraseUnusableToken(under: user)
        #expect(credential.token == RefreshToken(key: old, sealed: nil))

        // The grant arrives once more. The erased token stays erased.
        credential.apply(Grant(grantedAt: at(5), token: .sealedForTest(old)))
        #expect(credential.token?.sealed == nil)
    }

    @Test func aRejectedTokenIsKeptButNotAskedAboutUntilItIsValidAgain() {
        var credential = Credential(granted: old)
        #expect(credential.tokenToCheck(under: AppUser()) == .sealedForTest(old))

        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(7)))
        credential.eraseUnusableToken(under: AppUser())
        #expect(credential.token == .sealedForTest(old))
        #expect(credential.tokenToCheck(under: AppUser()) == nil)

        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(7)))
        #expect(credential.tokenToCheck(under: AppUser()) == .sealedForTest(old))
    }

    @Test func nothingIsAskedWithoutASealedToken() {
        #expect(Credential().tokenToCheck(under: AppUser()) == nil)
        var erased = Credential(granted: old)
        erased.token?.sealed = nil
        #expect(erased.tokenToCheck(under: AppUser()) == nil)
    }
}

extension Credential {
    /// - Parameters:
    ///   - time: when Apple accepted the token, for the team.
    ///   - newer: the token of a sign-in at 9.
    init(granted key: RefreshToken.Key, acceptedAt time: Timestamp? = nil, by team: String? = nil, then newer: RefreshToken.Key? = nil) {
        self.init()
        apply(Grant(grantedAt: key.grantedAt, token: .sealedForTest(key)))
        if let time { apply(RefreshAnswer(.valid, token: key, requestedAt: time, teamID: team)) }
        if let newer { apply(Grant(grantedAt: at(9), token: .sealedForTest(newer))) }
    }
}

@Suite struct OlderTokensTests {
    private static func key(_ number: Int) -> RefreshToken.Key {
        RefreshToken.Key(grantedAt: Timestamp(milliseconds: Int64(number)), fingerprint: Array(repeating: UInt8(number), count: number))
    }

    @Test func theLastEightAreKnownWhateverTheirOrder() {
        var tokens = OlderTokens()
        for number in Array(1...12).shuffled() { tokens.insert(Self.key(number)) }
        #expect(tokens.keys == (5...12).reversed().map(Self.key))
        for number in 1...12 {
            let again = RefreshToken.Key(grantedAt: Timestamp(milliseconds: 99), fingerprint: Self.key(number).fingerprint)
            #expect(tokens.contains(anEarlier: again) == (number >= 5))
            #expect(!tokens.contains(anEarlier: Self.key(number)), "the same sign-in")
        }
    }

    @Test func areWrittenAndReadAgain() {
        var tokens = OlderTokens()
        #expect(tokens.bytes == nil)
        for number in 0...3 { tokens.insert(Self.key(number)) }
        let bytes = tokens.bytes ?? []
        #expect(OlderTokens(bytes) == tokens)
        for length in bytes.indices { #expect(tokens.keys.starts(with: OlderTokens(Array(bytes.prefix(length))).keys)) }
    }
}
