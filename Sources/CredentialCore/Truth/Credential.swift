// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The registers of one user at one client. Each keeps the greatest key it has seen, so order and duplicates cannot matter.
///
/// The letters are those of the table in docs/architecture.md.
package struct Credential: Sendable, Equatable {
    /// `G`: the newest sign-in.
    package var grantedAt: Timestamp?
    /// `T`: the token of the newest sign-in that brought one.
    package var token: RefreshToken?
    /// `P`: the token before `T`. Its sealed bytes are kept until Apple accepts `T`: only then is it known that `T` is a token at all.
    package var formerToken: RefreshToken?
    /// `V` of `P`, as it was when `T` came; nil where Apple had not accepted it.
    package var formerVerifiedAt: Timestamp?
    /// The team that asked then.
    package var formerVerifiedTeam: String?
    /// Those before `P`, and those that came late.
    package var olderTokens = OlderTokens()
    /// `B`: the newest request to revoke after which this client's token is dead.
    package var revokedAt: Timestamp?
    /// `V`: when Apple was last asked about `T` and answered 200.
    package var verifiedAt: Timestamp?
    /// The team that asked then: to another team Apple may reject a good token.
    package var verifiedTeam: String?
    /// `X`: when Apple was last asked about `T` and answered with an `invalid_grant` that was admitted.
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

    /// Takes a token that Apple has just issued for a sign-in older than `T`. While Apple has not accepted `T`, it is the surest one, unless a
    /// newer one is kept that Apple had accepted. It may be `T` itself, which a backend told with a later time.
    ///
    /// - Parameter answer: the issue.
    package mutating func applyIssued(_ issued: RefreshToken, _ answer: RefreshAnswer) {
        if let token, token.key.fingerprint == issued.key.fingerprint {
            return apply(RefreshAnswer(.valid, token: token.key, requestedAt: answer.requestedAt, teamID: answer.teamID))
        }
        guard verifiedAt == nil else { return }
        if let formerToken, formerVerifiedAt != nil, formerToken.key > issued.key { return }
        if formerToken?.key == issued.key { formerToken = nil }
        keep(issued, verifiedAt: answer.requestedAt, team: answer.teamID)
    }

    /// Whether it differs from another one in the tokens before `T` at most.
    package func isSame(butForFormerTokens other: Credential) -> Bool {
        var copy = self
        copy.formerToken = other.formerToken
        copy.formerVerifiedAt = other.formerVerifiedAt
        copy.formerVerifiedTeam = other.formerVerifiedTeam
        copy.olderTokens = other.olderTokens
        return copy == other
    }

    /// Whether a sign-in brings a token that came with an earlier one. The token was issued then, so the sign-in proves nothing new: mostly a
    /// backend tells all that it keeps again, dated now.
    package func isRetold(_ grant: Grant) -> Bool {
        guard let new = grant.token?.key else { return false }
        return [token, formerToken].contains { $0?.key.isEarlier(than: new) ?? false } || olderTokens.contains(anEarlier: new)
    }

    /// A token stays until Apple accepts its successor, unless Apple has rejected it, or has not accepted it and another one is kept.
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

    /// Takes `P` for `T` again where Apple rejects `T` and has never accepted it, because a mistake brought it; or where `P` is the newer one,
    /// because an answer had put it back, and the rejection of `T` says nothing of the newest sign-in.
    ///
    /// Where several tokens were told before Apple had accepted any, it hangs on their order which of them is `P`.
    package mutating func fallBack() {
        guard rejectedAt != nil, let token, let former = formerToken, former.sealed != nil else { return }
        guard verifiedAt == nil || isTokenRejected && former.key > token.key && !isTokenOfNewestSignIn else { return }
        exchangeTokens()
        formerToken?.sealed = nil
    }

    /// Takes a `P` that Apple had accepted for `T` again, because Apple says that `T`, which it has not accepted as this user's, is another
    /// user's. `T` is kept as `P`, until Apple has answered about the other.
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

    /// Takes an answer in, unless it was asked under a token that is not the current one any more.
    package mutating func apply(_ answer: RefreshAnswer) {
        guard answer.token == token?.key else { return }
        switch answer.verdict {
        case .valid:
            formerToken?.sealed = nil
            formerVerifiedAt = nil
            formerVerifiedTeam = nil
            // Two teams at one time: the greater name, so that no order matters.
            if let verifiedAt, (verifiedAt, verifiedTeam ?? "") >= (answer.requestedAt, answer.teamID ?? "") { return }
            verifiedAt = answer.requestedAt
            verifiedTeam = answer.teamID
        case .rejected: rejectedAt = latest(rejectedAt, answer.requestedAt)
        }
    }

    package mutating func apply(_ revocation: Revocation) {
        revokedAt = latest(revokedAt, revocation.requestedAt)
    }

    /// Erases the sealed tokens where signed evidence or a proved revocation stands above them.
    package mutating func eraseUnusableToken(under user: AppUser) {
        if token?.sealed != nil, !isTokenUsable(under: user) {
            token?.sealed = nil
        }
        if formerToken?.sealed != nil, !isUsable(formerToken, under: user) {
            formerToken?.sealed = nil
            formerVerifiedAt = nil
            formerVerifiedTeam = nil
        }
    }

    /// `T` is usable while it is not older than `D` and `R` and newer than `A` and `B`.
    package func isTokenUsable(under user: AppUser) -> Bool { isUsable(token, under: user) }

    private func isUsable(_ token: RefreshToken?, under user: AppUser) -> Bool {
        guard let granted = token?.key.grantedAt else { return false }
        return !isGreater(user.deletedAt, than: granted)
            && !isGreater(user.consentRevokedAt, than: granted)
            && isGreater(granted, than: user.revokedAt)
            && isGreater(granted, than: revokedAt)
    }

    /// Whether Apple's last admitted word on `T` is a rejection. Equality favours the 200.
    package var isTokenRejected: Bool {
        isGreater(rejectedAt, than: verifiedAt)
    }

    /// Whether Apple has accepted `T` from a team. What it says of `T` to another says nothing of the user: an app that has changed hands
    /// asks about the tokens of its old team.
    package func wasTokenAccepted(by teamID: String?) -> Bool { verifiedAt != nil && verifiedTeam == teamID }

    /// Whether Apple rejects `T` and has never accepted it: it was dead before it came here, was issued to another client, or is no
    /// token. Its rejection says nothing of any sign-in.
    package func isTokenNeverAccepted(under user: AppUser) -> Bool {
        rejectedAt != nil && verifiedAt == nil && isTokenUsable(under: user)
    }

    /// Whether the end of `T` says something of the newest sign-in: Apple has accepted `T`, which came with that sign-in, or has accepted it
    /// since.
    package var isTokenOfNewestSignIn: Bool {
        verifiedAt != nil && grantedAt.map { wasTokenGood(at: $0) } ?? true
    }

    /// The token to ask Apple about on schedule, if there is one.
    package func tokenToCheck(under user: AppUser) -> RefreshToken? {
        guard isTokenUsable(under: user), !isTokenRejected, let token, token.sealed != nil else { return nil }
        return token
    }
}
