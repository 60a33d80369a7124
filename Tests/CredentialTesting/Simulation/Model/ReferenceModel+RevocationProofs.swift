// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The revocation of one token, up to its receipt. It needs three answers of Apple, with one key. The process stores each answer before the
/// next question.
extension ReferenceModel {
    struct RevocationKey: Hashable {
        var request: Int64
        var clientID: String
        var fingerprint: [UInt8]
    }

    struct OpenRevocation {
        var credential: CredentialID
        var token: Token
        var text: String
        var standing: DueRevocation.Standing
        /// All tokens of the user at the client that backends had reported when the request was opened.
        var told: Set<String>
        var requestedAt: Timestamp
        var openedAt: Timestamp
        /// The team of its last acceptance by Apple.
        var verifiedTeam: String?
        var held: Claim?
        /// Whether a new sign-in of the user was known when siwatch claimed it, or was possible because of a waiting code.
        var isOvertaken = false
        var mayBeOvertaken = false
        /// Apple's first answer about it, and the asking key.
        var before: AnsweredQuestion.Word?
        var askedAt = Timestamp.earliest
        var date = Timestamp.earliest
        var keyID: String?
        var isRevoked = false
        /// Whether the request to revoke got no answer.
        var isUnheard = false
        /// Whether Apple rejected it at first, so that siwatch must ask anew.
        var isAskedAnew = false
        /// Whether Apple still accepted it at the last question after a revocation.
        var isAlive = false
        /// Whether somebody else than siwatch wrote its row, so that nobody has asked for it.
        var isPlanted = false
    }

    /// Somebody else than siwatch has written a token to revoke, with a request of its own.
    mutating func planted(_ token: Token, of credential: CredentialID, as request: Int64, at now: Timestamp) {
        var row = RequestRow(credential: credential, requestedAt: token.grantedAt)
        (row.effectiveAt, row.isOpen) = (token.grantedAt, true)
        insert(row, as: request)
        var open = OpenRevocation(
            credential: credential,
            token: token,
            text: facts[credential]?.texts[token] ?? "",
            standing: .acceptedBefore,
            told: [],
            requestedAt: token.grantedAt,
            openedAt: now
        )
        open.isPlanted = true
        revocations[RevocationKey(request: request, clientID: credential.clientID, fingerprint: token.fingerprint)] = open
    }

    /// - Returns: the violation, if the process may not ask this.
    func asks(_ work: DueRevocation, toRevoke: Bool, _ text: String) -> Violation? {
        guard let open = revocations[RevocationKey(work)] else { return nil }
        let user = work.id.userID
        if open.isPlanted { return Violation(.noFalseRevocation, "Apple is asked about a token of \(user) that somebody else put there") }
        if open.text != text { return Violation(.noFalseRevocation, "another token of \(user) is to be revoked than was asked for") }
        if open.isOvertaken || open.mayBeOvertaken, !open.isRevoked {
            return Violation(.noFalseRevocation, "\(user) has signed in again, and an older token is still to be revoked")
        }
        if toRevoke, open.before != .accepted {
            return Violation(.stateFollowsFromFacts, "a token of \(user) is revoked before it is known that Apple accepts it")
        }
        return nil
    }

    /// - Parameter result: proofs and breaker decide whether siwatch believes that a token was dead from the first.
    /// - Returns: the allowed results.
    mutating func settle(_ work: DueRevocation, _ call: AnsweredQuestion?, _ result: Settled, at now: Timestamp) -> [Settled] {
        let key = RevocationKey(work)
        guard var open = revocations[key], open.held == work.claim else { return [.superseded] }
        open.held = nil
        if open.isPlanted { return [close(key, open, .rejected, .planted)] }
        hear(call?.ofClient, of: key.clientID, at: now)
        defer { if revocations[key] != nil { revocations[key] = open } }
        if work.claim.attempts > 5 { return [close(key, open, .rejected, .poison)] }
        guard let call else {
            if open.isOvertaken, !open.isRevoked { return [close(key, open, .superseded)] }
            if open.mayBeOvertaken, !open.isRevoked, result == .postponed {
                reconsider(&open, at: now)
                return [.postponed]
            }
            // The client was paused since the claim, or siwatch may not repeat its first question yet.
            guard result == .postponed else { return [] }
            if open.before == .rejected { reconsider(&open, at: now) }
            return [.postponed]
        }
        if call.word == .unnamed, !open.isRevoked, open.standing == .neverAccepted { return [close(key, open, .rejected, .unnamedUser)] }
        // An answer to another key proves nothing, nor does one to another team than Apple accepted the token from.
        let isAnotherTeam = open.before == .accepted && open.verifiedTeam.map { $0 != call.team } ?? false
        if call.word != .none, call.word != .foreign, let known = open.keyID, known != call.keyID || isAnotherTeam {
            (open.before, open.isRevoked, open.isAlive, open.keyID) = (nil, false, false, nil)
            if call.word == .revoked || call.word == .unheard { return [.postponed] }
        }
        switch call.word {
        case .none: break
        case .foreign: if open.before != .accepted { return [close(key, open, .rejected, .anotherUser)] }
        case .revoked, .unheard: (open.isRevoked, open.isUnheard) = (true, call.word == .unheard)
        case .accepted where open.isRevoked, .unnamed where open.isRevoked:
            (open.isRevoked, open.isAlive) = (false, true)
            (open.standing, open.verifiedTeam) = (.accepted, call.team)
        case .rejected where open.isRevoked: return [close(key, open, .proved)]
        case .rejected where open.before == .rejected:
            // Apple's answers to another team prove nothing.
            let known = facts[open.credential]!
            let isNewest = known.token == open.token
            // A backend may have reported a sign-in since, or a check accepted the token. What the proof itself accepted counts alone.
            let speaksByChecks = open.standing != .accepted && isNewest && known.tokenSpeaksOfUser
            let isOthers =
                open.verifiedTeam.map { $0 != call.team } ?? false || speaksByChecks && verifiedTeam(of: open.credential) != call.team
            let dead: RevocationOutcome = open.standing == .accepted || speaksByChecks ? .alreadyInvalid : .noValidToken
            if result == .revocation(dead), !isOthers { return [close(key, open, dead)] }
            if result == .revocation(.rejected, .otherTeam), isOthers { return [close(key, open, .rejected, .otherTeam)] }
            // The breaker has opened meanwhile.
            reconsider(&open, at: now)
        case .accepted, .unnamed, .rejected:
            let word: AnsweredQuestion.Word = call.word == .rejected ? .rejected : .accepted
            (open.before, open.keyID, open.askedAt, open.date) = (word, call.keyID, call.askedAt, call.date)
            open.isAskedAnew = false
            if word == .accepted { (open.standing, open.verifiedTeam) = (.accepted, call.team) }
        }
        return [.postponed]
    }

    /// After siwatch has asked about all other tokens, it asks Apple anew.
    private func reconsider(_ open: inout OpenRevocation, at now: Timestamp) {
        guard open.askedAt > now || open.askedAt.advanced(by: SimulatedProcess.policy.repetition) <= now else { return }
        (open.before, open.isAskedAnew) = (nil, true)
    }

    private mutating func close(
        _ key: RevocationKey,
        _ open: OpenRevocation,
        _ outcome: RevocationOutcome,
        _ reason: RevocationRejection? = nil
    ) -> Settled {
        revocations[key] = nil
        let after = outcome == .proved ? "invalid_grant" : open.isAlive ? "accepted" : ""
        let answers = [open.before?.text ?? "", open.isRevoked ? open.isUnheard ? "unheard" : "revoked" : "", after]
        let (word, why) = (outcome.rawValue, reason?.rawValue ?? "")
        receipts.append(Receipt(request: key.request, clientID: key.clientID, outcome: word, reason: why, answers: answers))
        if !revocations.keys.contains(where: { $0.request == key.request }) { requestRows[key.request] = nil }
        guard !open.isPlanted else {
            plantedInBatch[open.credential.userID, default: []].append(open.requestedAt)
            return .revocation(outcome, reason)
        }
        let list: WritableKeyPath<UserFacts, Set<Timestamp>> = reason == .poison ? \.requests : \.requestsWithTokens
        userFacts[open.credential.userID, default: UserFacts()][keyPath: list].insert(open.wantedAt)
        facts[open.credential]?.answeredTokens.insert(open.token)
        if outcome == .proved || outcome == .alreadyInvalid {
            facts[open.credential]!.revocations.insert(open.wantedAt)
            facts[open.credential]!.revokedTokens.insert(open.token)
            userFacts[open.credential.userID, default: UserFacts()].ended.insert(open.wantedAt)
            touched.insert(open.credential.userID)
        }
        // Apple has ended all grants to the app: tokens of its other clients, and tokens that backends report later.
        if outcome == .proved { userFacts[open.credential.userID, default: UserFacts()].revoked.insert(open.wantedAt) }
        return .revocation(outcome, reason)
    }
}

extension ReferenceModel.OpenRevocation {
    /// The time of the app's request, but not after the first question: by the host's clock if that is right, else by Apple's second.
    var wantedAt: Timestamp {
        guard before != nil else { return requestedAt }
        let distance = date.duration(to: askedAt)
        let asked = distance >= .seconds(-15) && distance < .seconds(1) ? askedAt : date
        return min(requestedAt, max(asked, token.grantedAt))
    }
}

extension ReferenceModel.RevocationKey {
    init(_ work: DueRevocation) { self.init(request: work.request, clientID: work.id.clientID, fingerprint: work.token.fingerprint) }
}

extension AnsweredQuestion.Word {
    fileprivate var text: String { self == .rejected ? "invalid_grant" : "accepted" }
}
