// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import CredentialCore

/// The token of a user that another has taken the place of.
@Suite struct FormerTokenTests {
    private let old = RefreshToken.Key(grantedAt: at(5), fingerprint: [1])
    private let new = RefreshToken.Key(grantedAt: at(6), fingerprint: [0])

    /// Only Apple's first 200 about the newer token shows that it is valid at all.
    @Test func aTokenThatAppleAcceptsStaysUntilItsSuccessorIsAccepted() {
        var credential = Credential(granted: old, acceptedAt: at(6), then: new)
        #expect(credential.token == .sealedForTest(new) && credential.formerToken == .sealedForTest(old))

        var accepted = credential
        accepted.apply(RefreshAnswer(.valid, token: new, requestedAt: at(10)))
        #expect(accepted.formerToken == RefreshToken(key: old, sealed: nil))

        // A token that Apple never accepted replaces none.
        let next = RefreshToken.Key(grantedAt: at(12), fingerprint: [12])
        var displaced = credential
        displaced.apply(Grant(grantedAt: at(12), token: .sealedForTest(next)))
        #expect(displaced.token?.key == next && displaced.formerToken == .sealedForTest(old))

        var user = AppUser()
        user.apply(Event(.consentRevoked, at: at(6)))
        credential.eraseUnusableToken(under: user)
        #expect(credential.token == .sealedForTest(new) && credential.formerToken?.sealed == nil)
    }

    /// Of two tokens without an answer from Apple, either may be the good one, in any order.
    @Test(arguments: [true, false]) func ofTwoUnknownTokensBothStay(_ inOrder: Bool) {
        var credential = Credential()
        for key in inOrder ? [old, new] : [new, old] { credential.apply(Grant(grantedAt: key.grantedAt, token: .sealedForTest(key))) }
        #expect(credential.token == .sealedForTest(new) && credential.formerToken == .sealedForTest(old))
        credential.fallBack()
        #expect(credential.token?.key == new, "Apple has not rejected it")
        credential.apply(RefreshAnswer(.rejected, token: new, requestedAt: at(10)))
        credential.fallBack()
        #expect(credential.token == .sealedForTest(old) && credential.formerToken == RefreshToken(key: new, sealed: nil))
        #expect(credential.verifiedAt == nil && credential.rejectedAt == nil)
        // The row of the other comes once more, and a nightly job reports the token again.
        credential.apply(Grant(grantedAt: at(9), token: .sealedForTest(new)))
        #expect(credential.token?.key == old)
        let earlier = RefreshToken.Key(grantedAt: at(5), fingerprint: [0xff])
        var sameTwice = Credential(granted: RefreshToken.Key(grantedAt: at(7), fingerprint: [0xff]))
        sameTwice.apply(Grant(grantedAt: at(5), token: .sealedForTest(earlier)))
        #expect(sameTwice.formerToken == nil, "the same token with an earlier date is none before it")
        let again = RefreshToken.Key(grantedAt: at(20), fingerprint: new.fingerprint)
        #expect(credential.isRetold(Grant(grantedAt: at(20), token: .sealedForTest(again))))
    }

    /// The known answers about the previous token come back with it, and mean the same for a sign-in since then.
    @Test func aTokenThatIsTakenAgainIsAsItWas() {
        var credential = Credential(granted: old, acceptedAt: at(6), by: "TEAM", then: new)
        credential.apply(RefreshAnswer(.rejected, token: new, requestedAt: at(10)))
        credential.fallBack()
        #expect(credential.token?.key == old && credential.verifiedAt == at(6) && credential.verifiedTeam == "TEAM")
        #expect(!credential.isTokenOfNewestSignIn)
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(11)))
        #expect(credential.standing(under: AppUser()).state == .authorized, "it may have ended before the sign-in")
        credential.apply(RefreshAnswer(.valid, token: old, requestedAt: at(12)))
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(13)))
        #expect(credential.isTokenOfNewestSignIn)
        #expect(credential.standing(under: AppUser()).reason == .tokenRejected)
        // A token that Apple has accepted gives its place to no earlier one.
        credential.fallBack()
        #expect(credential.token?.key == old)
    }

    /// Apple says that the token is another user's. The previous token watches this user again.
    @Test func aTokenOfAnotherUserGivesItsPlaceToTheAcceptedOneBefore() {
        var credential = Credential(granted: old, acceptedAt: at(6), by: "TEAM", then: new)
        credential.putBackForeignToken()
        #expect(credential.token == .sealedForTest(old) && credential.verifiedAt == at(6) && credential.verifiedTeam == "TEAM")
        #expect(credential.formerToken == .sealedForTest(new), "kept until Apple has answered about the other")
        var accepted = credential
        accepted.apply(RefreshAnswer(.valid, token: old, requestedAt: at(12), teamID: "TEAM"))
        #expect(accepted.formerToken?.sealed == nil && accepted.isTokenOfNewestSignIn)
        // The old token has ended, perhaps before the sign-in. That says nothing about the sign-in, so siwatch asks about the newer token
        // again.
        credential.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(12)))
        credential.fallBack()
        #expect(credential.token == .sealedForTest(new) && credential.verifiedAt == nil && credential.formerToken?.sealed == nil)
        #expect(credential.standing(under: AppUser()).state == .authorized)
        credential.putBackForeignToken()
        #expect(credential.token?.key == new, "there is no other any more")
    }

    /// A token without an answer from Apple is no surer than the other. A token that Apple has accepted is this user's.
    @Test func onlyAnAcceptedTokenIsPutBack() {
        var credential = Credential(granted: old, then: new)
        let before = credential
        credential.putBackForeignToken()
        #expect(credential == before)
    }

    /// The page asks backends to date sign-ins at the end of their second. So a backend's token may be dated after one that Apple issues.
    @Test func anIssuedTokenIsKeptBeforeOneThatAppleHasNotAccepted() {
        let issued = RefreshToken.Key(grantedAt: at(5), fingerprint: [8])
        let answer = RefreshAnswer(.valid, token: issued, requestedAt: at(8), teamID: "TEAM")
        var credential = Credential(granted: old, then: new)
        credential.apply(Grant(grantedAt: at(5), token: .sealedForTest(issued)))
        #expect(credential.formerToken?.key == old)
        credential.applyIssued(.sealedForTest(issued), answer)
        #expect(credential.formerToken == .sealedForTest(issued) && credential.formerVerifiedAt == at(8))
        #expect(credential.formerVerifiedTeam == "TEAM")
        credential.apply(RefreshAnswer(.valid, token: new, requestedAt: at(10)))
        credential.applyIssued(.sealedForTest(issued), answer)
        #expect(credential.formerToken?.sealed == nil && credential.formerVerifiedAt == nil, "the newer one is a token")
    }

    /// An event may be newer than the code's sign-in, and the newer token would be gone.
    @Test func anIssuedTokenDisplacesNoNewerOneThatAppleHadAccepted() {
        let issued = RefreshToken.Key(grantedAt: at(4), fingerprint: [8])
        var credential = Credential(granted: old, acceptedAt: at(6), by: "TEAM", then: new)
        credential.apply(Grant(grantedAt: at(4), token: .sealedForTest(issued)))
        credential.applyIssued(.sealedForTest(issued), RefreshAnswer(.valid, token: issued, requestedAt: at(8), teamID: "TEAM"))
        #expect(credential.formerToken == .sealedForTest(old) && credential.formerVerifiedAt == at(6))
    }

    @Test func anIssuedTokenThatWasToldLaterIsTheSame() {
        let issued = RefreshToken.Key(grantedAt: at(4), fingerprint: new.fingerprint)
        var credential = Credential(granted: old, then: new)
        credential.apply(Grant(grantedAt: at(4), token: .sealedForTest(issued)))
        credential.applyIssued(.sealedForTest(issued), RefreshAnswer(.valid, token: issued, requestedAt: at(10), teamID: "TEAM"))
        #expect(credential.token?.key == new && credential.verifiedAt == at(10) && credential.verifiedTeam == "TEAM")
        #expect(credential.formerToken?.sealed == nil)
    }

    @Test func ofATokenThatAppleRejectsTheKeyStays() {
        var rejected = Credential(granted: old, acceptedAt: at(6))
        rejected.apply(RefreshAnswer(.rejected, token: old, requestedAt: at(7)))
        rejected.apply(Grant(grantedAt: at(9), token: .sealedForTest(new)))
        #expect(rejected.formerToken == RefreshToken(key: old, sealed: nil))
    }
}
