// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// How one fact moves the registers of a credential.
@Suite struct CredentialTests {
    private let old = RefreshToken.Key(grantedAt: at(5), fingerprint: [1])
    private let new = RefreshToken.Key(grantedAt: at(6), fingerprint: [0])

    @Test func anOlderFactMovesNothing() {
        var credential = Credential(granted: old)
        credential.apply(Revocation(requestedAt: at(9)))
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(9)))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(9)))
        var before = credential

        let older = RefreshToken.Key(grantedAt: at(4), fingerprint: [9])
        credential.apply(Grant(grantedAt: at(4), token: .sealedForTest(older)))
        #expect(credential.olderTokens.keys == [older], "all that is kept of it")
        before.olderTokens = credential.olderTokens
        credential.apply(Revocation(requestedAt: at(8)))
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(8)))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(8)))
        #expect(credential == before)
    }

    @Test func aNewTokenStartsWithoutAnswers() {
        var credential = Credential(granted: old)
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(7)))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(8)))
        #expect(credential.verifiedAt == at(7))
        #expect(credential.rejectedAt == at(8))

        credential.apply(Grant(grantedAt: at(6), token: .sealedForTest(new)))
        #expect(credential.token?.key == new)
        #expect(credential.verifiedAt == nil)
        #expect(credential.rejectedAt == nil)
    }

    @Test func theSameTokenAgainChangesNothing() {
        var credential = Credential(granted: old)
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(7)))
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
        var credential = Credential(granted: old)
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(7)))
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

    @Test(arguments: [4, 5, 6] as [Int64])
    func aTokenIsUsableWhileNotOlderThanEventsAndNewerThanRevocations(_ time: Int64) {
        let credential = Credential(granted: old)
        var deleted = AppUser()
        deleted.apply(Event(.accountDeleted, at: at(time)))
        #expect(credential.isTokenUsable(under: deleted) == (time <= 5))

        var withdrawn = AppUser()
        withdrawn.apply(Event(.consentRevoked, at: at(time)))
        #expect(credential.isTokenUsable(under: withdrawn) == (time <= 5))

        var revoked = credential
        revoked.apply(Revocation(requestedAt: at(time)))
        #expect(revoked.isTokenUsable(under: AppUser()) == (time < 5))

        var revokedElsewhere = AppUser()
        revokedElsewhere.apply(Revocation(requestedAt: at(time)))
        #expect(credential.isTokenUsable(under: revokedElsewhere) == (time < 5))
    }

    /// Whether the newer one is a token at all, only Apple's first 200 about it says.
    @Test func aTokenThatAppleAcceptsStaysUntilItsSuccessorIsAccepted() {
        var credential = Credential(granted: old)
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(6)))
        credential.apply(Grant(grantedAt: at(9), token: .sealedForTest(new)))
        #expect(credential.token == .sealedForTest(new) && credential.formerToken == .sealedForTest(old))

        var accepted = credential
        accepted.apply(RefreshAnswer(.valid, token: new, requestedAt: at(10)))
        #expect(accepted.formerToken == RefreshToken(key: old, sealed: nil))

        // One that Apple never accepted takes nobody's place.
        let next = RefreshToken.Key(grantedAt: at(12), fingerprint: [12])
        var displaced = credential
        displaced.apply(Grant(grantedAt: at(12), token: .sealedForTest(next)))
        #expect(displaced.token?.key == next && displaced.formerToken == .sealedForTest(old))

        var user = AppUser()
        user.apply(Event(.consentRevoked, at: at(6)))
        credential.eraseUnusableToken(under: user)
        #expect(credential.token == .sealedForTest(new) && credential.formerToken?.sealed == nil)
    }

    @Test func ofATokenThatAppleNeverAcceptedOrRejectsTheKeyStays() {
        var credential = Credential(granted: old)
        credential.apply(Grant(grantedAt: at(9), token: .sealedForTest(new)))
        #expect(credential.formerToken == RefreshToken(key: old, sealed: nil))

        var rejected = Credential(granted: old)
        rejected.apply(RefreshAnswer(.valid, token: old, requestedAt: at(6)))
        rejected.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(7)))
        rejected.apply(Grant(grantedAt: at(9), token: .sealedForTest(new)))
        #expect(rejected.formerToken == RefreshToken(key: old, sealed: nil))
    }

    @Test func anUnusableTokenIsErasedAndItsKeyStays() {
        var credential = Credential(granted: old)
        credential.eraseUnusableToken(under: AppUser())
        #expect(credential.token == .sealedForTest(old))

        var user = AppUser()
        user.apply(Event(.consentRevoked, at: at(6)))
        credential.eraseUnusableToken(under: user)
        #expect(credential.token == RefreshToken(key: old, sealed: nil))

        // The grant arrives once more: what is erased stays erased.
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
    /// As a grant that brought a token leaves it.
    fileprivate init(granted key: RefreshToken.Key) {
        self.init()
        apply(Grant(grantedAt: key.grantedAt, token: .sealedForTest(key)))
    }
}
