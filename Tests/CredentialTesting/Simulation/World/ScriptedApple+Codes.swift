// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Codes. Apple takes each once, within five minutes, from the client of its sign-in.
extension ScriptedApple {
    struct Code {
        var signIn: Int
        var issuedAt: Timestamp
        /// The redirect URI of the sign-in on the web; nil for a native one.
        var redirectURI: String?
        var usedAt: Timestamp?
    }

    struct Identity {
        var userID: String
        /// Cut to the second.
        var issuedAt: Timestamp
        var address: String?
        /// Whether its signature verifies, and whether it is readable.
        var isGood = true
        var isReadable = true
        /// When Apple publishes the signing key; nil for a key that was always public.
        var keyIsPublishedAt: Timestamp?
        /// When its user signed in.
        var signedInAt: Timestamp
    }

    static func text(ofCode number: Int) -> String { "code\(number)" }

    private static let life = Duration.seconds(300)

    mutating func take(_ code: String, redirectURI: String?, from clientID: String, at now: Timestamp) -> GrantRejection? {
        guard let number = Int(code.dropFirst("code".count)) else { return .rejectedByApple }
        let (issued, signIn) = (codes[number], signIns[codes[number].signIn])
        if signIn.credential.clientID != clientID { return .clientMismatch }
        if issued.redirectURI != redirectURI { return .redirectURIMismatch }
        if issued.usedAt != nil { return .codeUsed }
        if signIn.team != team(of: clientID) { return .rejectedByApple }
        if signIn.endedAt != nil || issued.issuedAt.duration(to: now) > Self.life { return .codeExpired }
        codes[number].usedAt = now
        let token = "c\(number).\(signIn.credential.userID)"
        signIns[issued.signIn].token = token
        signInsOfToken[token] = issued.signIn
        return nil
    }

    func issued(for code: String) -> SignIn? { Int(code.dropFirst("code".count)).map { signIns[codes[$0].signIn] } }

    /// Ends all grants of a token's user to the app, or the token's alone.
    ///
    /// - Returns: the token's owner; nil if the token is dead, which Apple does not report.
    mutating func revoke(_ token: String, from clientID: String, at now: Timestamp) -> CredentialID? {
        guard let signIn = signInsOfToken[token].map({ signIns[$0] }), isAccepted(token, at: signIn.credential),
            signIn.credential.clientID == clientID
        else { return nil }
        // A user of the simulation has one app.
        let all = signInsOfUser[signIn.credential.userID] ?? []
        let ended = revokesAlone ? all.filter { signIns[$0].token == token } : all
        for index in ended where signIns[index].endedAt == nil { signIns[index].endedAt = now }
        return signIn.credential
    }

    /// The answer to a code in place of the truth; nil for the truth.
    mutating func answer(toCodeOf clientID: String, in app: String, using generator: inout SeededGenerator) -> EndpointAnswer<ExchangeNews>?
    {
        let answer = weather(of: clientID, in: app)?.answer(toCodeOf: clientID, using: &generator)
        if case .misconfigured = answer { blamedApps.insert(app) }
        return answer
    }

    /// The answer to a revocation that has no effect; nil if it may have one.
    mutating func answer(toRevocationFrom clientID: String, in app: String, using generator: inout SeededGenerator) -> EndpointAnswer<
        RevokeNews
    >? {
        let answer = weather(of: clientID, in: app)?.answer(toRevocationFrom: clientID, using: &generator)
        if case .misconfigured = answer { blamedApps.insert(app) }
        return answer
    }
}

extension Weather {
    fileprivate func answer(toCodeOf clientID: String, using generator: inout SeededGenerator) -> EndpointAnswer<ExchangeNews>? {
        if case .refreshesRejected = self { return nil }
        return switch answer(to: CredentialID(clientID: clientID, userID: ""), using: &generator) {
        case .unavailable(let detail, _, let retryAfter): .unavailable(detail, isAnswerLost: false, retryAfter: retryAfter)
        case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
        case .misconfigured(let error): .misconfigured(error)
        case .news(.rejected): .refused(.codeExpired, detail: "simulated")
        case .news(.ambiguous): .refused(.rejectedByApple, detail: "simulated")
        case .news(.valid), .news(.unnamed), .news(.anotherUser), nil: nil
        }
    }

    fileprivate func answer(toRevocationFrom clientID: String, using generator: inout SeededGenerator) -> EndpointAnswer<RevokeNews>? {
        switch answer(to: CredentialID(clientID: clientID, userID: ""), using: &generator) {
        case .unavailable(let detail, _, let retryAfter): .unavailable(detail, isAnswerLost: false, retryAfter: retryAfter)
        case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
        case .misconfigured(let error): .misconfigured(error)
        case .news(.rejected), .news(.ambiguous): .accepted
        case .news(.valid), .news(.unnamed), .news(.anotherUser), nil: nil
        }
    }
}
