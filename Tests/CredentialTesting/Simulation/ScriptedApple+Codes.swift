// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Codes, which Apple takes once, within five minutes, from the client that they were issued to.
extension ScriptedApple {
    struct Code {
        var signIn: Int
        var issuedAt: Timestamp
        /// What the sign-in on the web named; nil for a native one.
        var redirectURI: String?
        var usedAt: Timestamp?
    }

    /// What an id_token says that comes with an exchange.
    struct Identity {
        var userID: String
        /// A second, cut off.
        var issuedAt: Timestamp
        var address: String?
        /// Whether it verifies, and whether it can be read at all.
        var isGood = true
        var isReadable = true
        /// When the key that signs it is published; nil for one that always was.
        var keyIsPublishedAt: Timestamp?
        /// When its user signed in.
        var signedInAt: Timestamp
    }

    /// As a backend gets it.
    static func text(ofCode number: Int) -> String { "code\(number)" }

    private static let life = Duration.seconds(300)

    /// What Apple does with a code: why it does not take it; nil where it is taken.
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

    /// The token that a code was exchanged for, and whose sign-in it was.
    func issued(for code: String) -> SignIn? {
        Int(code.dropFirst("code".count)).map { signIns[codes[$0].signIn] }
    }

    /// Ends all that the user of a token has granted to the app.
    ///
    /// - Returns: whose it was; nil where it is no good, which Apple does not say.
    mutating func revoke(_ token: String, from clientID: String, at now: Timestamp) -> CredentialID? {
        guard let signIn = signInsOfToken[token].map({ signIns[$0] }), isAccepted(token, at: signIn.credential),
            signIn.credential.clientID == clientID
        else { return nil }
        // A user of the simulation knows one app.
        for index in signInsOfUser[signIn.credential.userID] ?? [] where signIns[index].endedAt == nil { signIns[index].endedAt = now }
        return signIn.credential
    }
}

extension ScriptedApple {
    /// What a code is answered with in place of the truth; nil where the truth is told.
    mutating func answer(toCodeOf clientID: String, in app: String, using generator: inout SeededGenerator) -> ExchangeOutcome? {
        let answer = weather(of: clientID, in: app)?.answer(toCodeOf: clientID, using: &generator)
        if case .misconfigured = answer { blamedApps.insert(app) }
        return answer
    }

    /// What a revocation is answered with, without any effect; nil where it may have one.
    mutating func answer(toRevocationFrom clientID: String, in app: String, using generator: inout SeededGenerator) -> RevokeOutcome? {
        let answer = weather(of: clientID, in: app)?.answer(toRevocationFrom: clientID, using: &generator)
        if case .misconfigured = answer { blamedApps.insert(app) }
        return answer
    }
}

extension Weather {
    fileprivate func answer(toCodeOf clientID: String, using generator: inout SeededGenerator) -> ExchangeOutcome? {
        if case .refreshesRejected = self { return nil }
        return switch answer(to: CredentialID(clientID: clientID, userID: ""), using: &generator) {
        case .unavailable(let detail, let retryAfter): .unavailable(detail, isAnswerLost: false, retryAfter: retryAfter)
        case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
        case .misconfigured(let error): .misconfigured(error)
        case .rejected: .refused(.codeExpired, detail: "simulated")
        case .ambiguous: .refused(.rejectedByApple, detail: "simulated")
        case .valid, .unnamed, .anotherUser, nil: nil
        }
    }

    fileprivate func answer(toRevocationFrom clientID: String, using generator: inout SeededGenerator) -> RevokeOutcome? {
        switch answer(to: CredentialID(clientID: clientID, userID: ""), using: &generator) {
        case .unavailable(let detail, let retryAfter): .unavailable(detail, isAnswerLost: false, retryAfter: retryAfter)
        case .throttled(let retryAfter): .throttled(retryAfter: retryAfter)
        case .misconfigured(let error): .misconfigured(error)
        case .rejected, .ambiguous: .accepted
        case .valid, .unnamed, .anotherUser, nil: nil
        }
    }
}
