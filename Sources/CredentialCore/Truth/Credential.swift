// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The registers of one user at one client, by the letters of docs/truth.md. Each keeps its greatest key, so order and duplicates do not
/// matter.
package struct Credential: Sendable, Equatable {
    /// `G`: the newest sign-in.
    package var grantedAt: Timestamp?
    /// `T`: the token of the newest sign-in that brought one.
    package var token: RefreshToken?
    /// `P`: the token before `T`. siwatch keeps its sealed bytes until Apple accepts `T`, because only then is `T` known to be a token.
    package var formerToken: RefreshToken?
    /// `V` of `P`, as it was when `T` came; nil if Apple had not accepted `P`.
    package var formerVerifiedAt: Timestamp?
    package var formerVerifiedTeam: String?
    /// Tokens before `P`, and tokens that siwatch was told late.
    package var olderTokens = OlderTokens()
    /// `B`: the newest request to revoke after which this client's token is dead.
    package var revokedAt: Timestamp?
    /// `V`: when siwatch sent the newest request about `T` that Apple answered with 200.
    package var verifiedAt: Timestamp?
    /// The team that asked at `verifiedAt`. To another team, Apple may reject a good token.
    package var verifiedTeam: String?
    /// `X`: when siwatch sent the newest request about `T` that Apple answered with an admitted `invalid_grant`.
    package var rejectedAt: Timestamp?

    package init() {}

    package mutating func apply(_ grant: Grant) {
        grantedAt = latest(grantedAt, grant.grantedAt)
        guard let new = grant.token else { return }
        let known = [token, formerToken].compactMap { $0?.key } + olderTokens.keys
        guard !known.contains(where: { new.key == $0 || new.key.isEarlier(than: $0) }) else {
            if !known.contains(new.key) { olderTokens.insert(new.key) }
            return
        }
        if let token, token.key > new.key {
            guard verifiedAt == nil, formerToken?.sealed == nil else { return olderTokens.insert(new.key) }
            return keep(new)
        }
        displaceToken()
        token = new
        verifiedAt = nil
        verifiedTeam = nil
        rejectedAt = nil
    }

    /// Takes a token that Apple has just issued for a sign-in older than `T`. While Apple has not accepted `T`, it is surest and replaces
    /// `P`, unless `P` is newer and Apple had accepted it. It may be `T` itself, if a backend told `T` with a later time.
    package mutating func applyIssued(_ issued: RefreshToken, _ answer: RefreshAnswer) {
        if let token, token.key.fingerprint == issued.key.fingerprint {
            return apply(RefreshAnswer(.valid, token: token.key, requestedAt: answer.requestedAt, teamID: answer.teamID))
        }
        guard verifiedAt == nil else { return }
        if let formerToken, formerVerifiedAt != nil, formerToken.key > issued.key { return }
        if formerToken?.key == issued.key { formerToken = nil }
        keep(issued, verifiedAt: answer.requestedAt, team: answer.teamID)
    }

    /// Whether it equals another credential apart from the tokens before `T`.
    package func isSame(butForFormerTokens other: Credential) -> Bool {
        var copy = self
        copy.formerToken = other.formerToken
        copy.formerVerifiedAt = other.formerVerifiedAt
        copy.formerVerifiedTeam = other.formerVerifiedTeam
        copy.olderTokens = other.olderTokens
        return copy == other
    }

    /// Whether a sign-in brings a token of an earlier sign-in, and so proves nothing new: mostly a backend tells all its tokens again.
    package func isRetold(_ grant: Grant) -> Bool {
        guard let new = grant.token?.key else { return false }
        return [token, formerToken].contains { $0?.key.isEarlier(than: new) ?? false } || olderTokens.contains(anEarlier: new)
    }

    /// Whether a sign-in has brought this token before, whatever its date.
    package func recognises(_ token: RefreshToken.Key) -> Bool {
        ([self.token, formerToken].compactMap { $0?.key } + olderTokens.keys).contains { $0.fingerprint == token.fingerprint }
    }

    /// Makes `T` the former token, unless another one is kept and Apple rejects `T` or never accepted it. A rejected `T` is not kept
    /// sealed.
    private mutating func displaceToken() {
        guard var token else { return }
        let isAccepted = verifiedAt != nil && !isTokenRejected
        guard isAccepted || formerToken?.sealed == nil else { return olderTokens.insert(token.key) }
        if rejectedAt != nil, !isAccepted { token.sealed = nil }
        keep(token, verifiedAt: isAccepted ? verifiedAt : nil, team: verifiedTeam)
    }

    private mutating func keep(_ former: RefreshToken, verifiedAt: Timestamp? = nil, team: String? = nil) {
        if let formerToken { olderTokens.insert(formerToken.key) }
        formerToken = former
        formerVerifiedAt = verifiedAt
        formerVerifiedTeam = verifiedAt == nil ? nil : team
    }

    /// Makes `P` the current token again. Either Apple rejects `T` and has never accepted it, because `T` came by a mistake. Or `P` is the
    /// newer token, which an answer about another user had put back, and the rejection of `T` says nothing of the newest sign-in. Of
    /// several tokens that Apple has not accepted, the order in which a backend told them decides which is `P`.
    package mutating func fallBack() {
        guard rejectedAt != nil, let token, let former = formerToken, former.sealed != nil else { return }
        guard verifiedAt == nil || isTokenRejected && former.key > token.key && !isTokenOfNewestSignIn else { return }
        exchangeTokens()
        formerToken?.sealed = nil
    }

    /// Exchanges `T` and `P`, because Apple says that `T` is another user's. Does so only if Apple had accepted `P`, and has never accepted
    /// `T` as this user's. The former `T` is kept until Apple has answered about the new one.
    package mutating func putBackForeignToken() {
        guard verifiedAt == nil, formerVerifiedAt != nil, formerToken?.sealed != nil else { return }
        exchangeTokens()
    }

    private mutating func exchangeTokens() {
        (token, formerToken) = (formerToken, token)
        (verifiedAt, verifiedTeam) = (formerVerifiedAt, formerVerifiedTeam)
        rejectedAt = nil
        formerVerifiedAt = nil
        formerVerifiedTeam = nil
    }

    /// Takes an answer, unless the request was about a token that is no longer the current one.
    package mutating func apply(_ answer: RefreshAnswer) {
        guard answer.token == token?.key else { return }
        switch answer.verdict {
        case .valid:
            formerToken?.sealed = nil
            formerVerifiedAt = nil
            formerVerifiedTeam = nil
            // Two teams at the same time: the greater name wins, so that the order does not matter.
            if let verifiedAt, (verifiedAt, verifiedTeam ?? "") >= (answer.requestedAt, answer.teamID ?? "") { return }
            verifiedAt = answer.requestedAt
            verifiedTeam = answer.teamID
        case .rejected: rejectedAt = latest(rejectedAt, answer.requestedAt)
        }
    }

    package mutating func revoke(at requestedAt: Timestamp) { revokedAt = latest(revokedAt, requestedAt) }

    /// Erases the sealed tokens that a signed event or a proved revocation has ended.
    package mutating func eraseUnusableToken(under user: AppUser) {
        if token?.sealed != nil, !isTokenUsable(under: user) { token?.sealed = nil }
        if formerToken?.sealed != nil, !isUsable(formerToken, under: user) {
            formerToken?.sealed = nil
            formerVerifiedAt = nil
            formerVerifiedTeam = nil
        }
    }

    /// Whether `T` is not older than `D` and `R`, and newer than `A` and `B`.
    package func isTokenUsable(under user: AppUser) -> Bool { isUsable(token, under: user) }

    private func isUsable(_ token: RefreshToken?, under user: AppUser) -> Bool {
        guard let granted = token?.key.grantedAt else { return false }
        return !isGreater(user.deletedAt, than: granted)
            && !isGreater(user.consentRevokedAt, than: granted)
            && isGreater(granted, than: user.revokedAt)
            && isGreater(granted, than: revokedAt)
    }

    /// Whether Apple's last admitted answer about `T` is a rejection. At the same time the 200 wins.
    var isTokenRejected: Bool { isGreater(rejectedAt, than: verifiedAt) }

    /// Whether Apple last accepted `T` from this team. What Apple says of `T` to another team says nothing of the user, because an app that
    /// has changed hands asks about the tokens of its old team.
    func wasTokenAccepted(by teamID: String?) -> Bool { verifiedAt != nil && verifiedTeam == teamID }

    /// Whether Apple rejects `T` and has never accepted it. Its rejection says nothing of any sign-in.
    package func isTokenNeverAccepted(under user: AppUser) -> Bool {
        rejectedAt != nil && verifiedAt == nil && isTokenUsable(under: user)
    }

    /// Whether nothing at Apple proves the newest sign-in: Apple has accepted no token since, or rejects one that it never accepted.
    var isUnproven: Bool { grantedAt.map { !wasTokenGood(at: $0) } ?? false || rejectedAt != nil && verifiedAt == nil }

    /// Whether the end of `T` says something of the newest sign-in: Apple accepted `T`, and `T` came with it or was accepted since.
    package var isTokenOfNewestSignIn: Bool { verifiedAt != nil && grantedAt.map { wasTokenGood(at: $0) } ?? true }

    /// The token to ask Apple about on schedule; nil if there is none.
    package func tokenToCheck(under user: AppUser) -> RefreshToken? {
        guard isTokenUsable(under: user), !isTokenRejected, let token, token.sealed != nil else { return nil }
        return token
    }
}
