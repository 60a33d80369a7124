// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore

extension AppleWorld {
    enum TokenReply: Sendable {
        case ready(ByteBuffer)
        /// An answer whose id_token has no signature yet.
        case draft(TokenAnswerDraft)
    }

    /// Judges the grant, then the client, then answers.
    ///
    /// The grant comes first. Since December 2022 Apple answers `invalid_grant` to a dead token even if the client and its secret are made
    /// up, so a dead token never proves a good secret. No document says whether a bad secret uses up the code beside it. Here it does not.
    mutating func answer(_ request: TokenRequest, _ style: IDTokenStyle?, now: Moment) throws(TokenError) -> TokenReply {
        let grant = try grant(for: request, now: now)
        do {
            try authenticate(request.clientID, secret: request.clientSecret, now: now)
        } catch {
            throw .invalidClient(error)
        }
        // Only `client_credentials` is about no sign-in. Nobody can use its access token here, so the world does not remember it.
        guard let grant else { return .ready(TokenAnswer.body(Invented.accessToken())) }
        if case .code = request.grant { return .draft(redeemCode(of: grant, style, now: now)) }
        return refresh(grant, style, now: now)
    }

    /// - Returns: nil if the request is about no sign-in.
    private func grant(for request: TokenRequest, now: Moment) throws(TokenError) -> Int? {
        switch request.grant {
        case .clientCredentials: return nil
        case .refreshToken(let token):
            guard let index = grant(of: token, .refresh), grants[index].isAlive, grants[index].clientID == request.clientID else {
                throw .deadToken
            }
            return index
        case .code(let text, let redirectURI):
            guard let index = grant(of: text, .code), let code = grants[index].code else { throw .deadCode }
            guard grants[index].clientID == request.clientID else { throw .clientMismatch(request.clientID) }
            guard !code.isUsed else { throw .usedCode }
            guard grants[index].isAlive, now < code.expiresAt else { throw .deadCode }
            if code.redirectURI != redirectURI { throw redirectURI.map(TokenError.redirectMismatch) ?? .invalidRequest }
            return index
        }
    }

    private mutating func redeemCode(of grant: Int, _ style: IDTokenStyle?, now: Moment) -> TokenAnswerDraft {
        let refreshToken = Invented.refreshToken()
        remember(refreshToken, .refresh, of: grant)
        grants[grant].code?.isUsed = true
        grants[grant].hasRefreshToken = true
        counters.codes.redeemed += 1
        return draft(grant, refreshToken: refreshToken, style, now: now)
    }

    private mutating func refresh(_ grant: Int, _ style: IDTokenStyle?, now: Moment) -> TokenReply {
        if style == nil, let answer = grants[grant].answer, answer.keyID == signingKeys.current.id,
            (.zero..<configuration.answerReuse).contains(now - answer.madeAt)
        {
            return .ready(answer.body)
        }
        // The next access token replaces the one in this answer.
        grants[grant].answer = nil
        return .draft(draft(grant, refreshToken: nil, style, now: now))
    }

    /// - Parameter refreshToken: the new one in the answer to a code; nil in an answer to a refresh, whose id_token has no nonce.
    private mutating func draft(_ grant: Int, refreshToken: String?, _ style: IDTokenStyle?, now: Moment) -> TokenAnswerDraft {
        let accessToken = renewAccessToken(of: grant)
        let (user, clientID) = (users[grants[grant].user], grants[grant].clientID)
        let nonce = refreshToken.flatMap { _ in grants[grant].code?.nonce }
        let (id, address) = (user.id, user.address)
        let claims = IDTokenClaims(userID: id, clientID: clientID, address: address, accessToken: accessToken, nonce: nonce, now: now)
        return TokenAnswerDraft(
            grant: grant,
            accessToken: accessToken,
            refreshToken: refreshToken,
            claims: refreshToken != nil || configuration.refreshCarriesIDToken ? claims : nil,
            style: style,
            otherClientID: groups[grants[grant].group].clientIDs.first { $0 != clientID } ?? "\(clientID).other",
            key: signingKeys.current,
            madeAt: now
        )
    }

    /// The answers to the next refresh of every living token that has none ready.
    mutating func draftAnswers(now: Moment) -> [TokenAnswerDraft] {
        grants.indices.compactMap { grant in
            guard grants[grant].isAlive, grants[grant].hasRefreshToken, case .draft(let draft) = refresh(grant, nil, now: now) else {
                return nil
            }
            return draft
        }
    }

    mutating func keep(_ body: ByteBuffer, of draft: TokenAnswerDraft) {
        guard draft.refreshToken == nil, draft.style == nil, grants[draft.grant].isAlive else { return }
        grants[draft.grant].answer = Grant.PreparedAnswer(body: body, madeAt: draft.madeAt, keyID: draft.key.id)
    }

    /// Ends the person's consent to the app group of a token.
    ///
    /// Changes nothing, and does not tell the caller, if the token is dead, unknown, a code or of another client, or the secret is bad.
    mutating func revoke(_ request: RevocationRequest, now: Moment) {
        counters.revocations.asked += 1
        guard let index = grant(of: request.token, .refresh, .access), grants[index].isAlive, grants[index].clientID == request.clientID
        else { return }
        do {
            try authenticate(request.clientID, secret: request.clientSecret, now: now)
            counters.revocations.effective += 1
            endConsent(of: grants[index].user, in: grants[index].group, .revokedByApp, at: now)
        } catch {
            counters.count(error)
        }
    }
}

/// A request on arrival: its subject, and the fault that hits it.
struct Arrival: Sendable {
    let endpoint: Endpoint
    let subject: Subject?
    let fault: Fault?

    /// The sign-in that the request is about and its effect on it, if Apple knows the code or token.
    enum Subject: Sendable {
        case exchange(Int)
        case refresh(Int)
        case revocation(Int)
        /// A client and its secret, and no sign-in.
        case client
    }
}

extension Arrival.Subject? {
    var isClient: Bool { if case .client = self { true } else { false } }
}

struct ExchangeOutcome: Sendable {
    /// The status of the answer, or the reason why there is none: a key of ``Counters/requests``.
    let label: String
    var isVerdict = false
}

extension AppleWorld {
    /// - Parameter caller: the name of the caller, if several share the simulator.
    mutating func begin(_ endpoint: Endpoint, _ form: FormBody?, of caller: String, hasUserAgent: Bool) -> Arrival {
        let token = form?["refresh_token"] ?? form?["code"] ?? form?["token"]
        let grant = token.flatMap { self.grant(of: $0, .code, .refresh, .access) }
        let fault = faults.next(at: endpoint, form, of: grant.map { users[grants[$0].user].id })
        counters.begin()
        let subject = subject(of: endpoint, form)
        // siwatch proves each client once, at a time of its own. The order and the pace of its work do not show it.
        if endpoint != .keys, !subject.isClient {
            counters.traffic.record(isCode: form?["grant_type"] == "authorization_code", of: caller, at: now)
        }
        if fault != nil { counters.faults += 1 }
        if !hasUserAgent { counters.anonymousRequests += 1 }
        return Arrival(endpoint: endpoint, subject: subject, fault: fault)
    }

    private func subject(of endpoint: Endpoint, _ form: FormBody?) -> Arrival.Subject? {
        switch (endpoint, form?["grant_type"]) {
        case (.token, "authorization_code"): form?["code"].flatMap { grant(of: $0, .code) }.map { .exchange($0) }
        case (.token, "refresh_token"): form?["refresh_token"].flatMap { grant(of: $0, .refresh) }.map { .refresh($0) }
        case (.token, TokenRequest.clientCredentials): .client
        case (.revoke, _): form?["token"].flatMap { grant(of: $0, .refresh, .access) }.map { .revocation($0) }
        case (.token, _), (.keys, _): nil
        }
    }

    mutating func end(_ arrival: Arrival, _ outcome: ExchangeOutcome, now: Moment) {
        counters.end(arrival, outcome)
        switch arrival.subject {
        case .exchange(let grant): grants[grant].exchanges += 1
        case .refresh(let grant): grants[grant].refreshes.record(isAnswer: outcome.isVerdict, at: now)
        case .revocation(let grant): grants[grant].revocations += 1
        case .client, nil: break
        }
    }
}
