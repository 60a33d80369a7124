// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The rows of `credential` that the rules derive from the facts.
extension ReferenceModel {
    /// One row of `credential`, public and private.
    struct Row: Equatable {
        var state: String
        var reason: String
        var changedAt: Int64?
        var verifiedAt: Int64?
        var rejectedAt: Int64?
        var holdsToken: Bool
        var holdsFormerToken: Bool
        var isScheduled: Bool
        var email: String?
        var forwarding: String?
        var neverAccepted: Bool
        var verifiedTeam: String?
    }

    func row(of credential: CredentialID) -> Row? {
        guard let facts = facts[credential], let standing = standing(of: credential) else { return nil }
        let holdsToken = standing.keptToken != nil && facts.swept != standing.token
        return Row(
            state: standing.state,
            reason: standing.reason,
            changedAt: standing.since?.milliseconds,
            verifiedAt: standing.verifiedAt?.milliseconds,
            rejectedAt: standing.rejectedAt?.milliseconds,
            holdsToken: holdsToken,
            holdsFormerToken: formerToken(of: credential) != nil,
            isScheduled: holdsToken && (standing.isAskedAbout || facts.rechecked == standing.token),
            email: standing.mail.map { String(decoding: $0.address, as: UTF8.self) },
            forwarding: standing.shownRelay.map { $0 ? "enabled" : "disabled" },
            neverAccepted: standing.isNeverAccepted,
            verifiedTeam: verifiedTeam(of: credential)
        )
    }

    func verifiedTeam(of credential: CredentialID) -> String? { facts[credential]?.token.flatMap { team(of: $0, at: credential) } }

    func team(of token: Token, at credential: CredentialID) -> String? {
        facts[credential]?.teams[token]?.max { ($0.at, $0.team) < ($1.at, $1.team) }?.team
    }

    /// Whether Apple has ever accepted a token, by the committed facts.
    func wasAccepted(_ token: RefreshToken.Key, of credential: CredentialID) -> Bool { facts[credential]?.teams[Token(token)] != nil }

    /// Notes the authorized states that the view shows now for touched users.
    mutating func noteAuthorized() {
        for credential in touched.flatMap(credentials(of:)) {
            guard let row = row(of: credential), row.state == "authorized", let since = row.changedAt else { continue }
            authorizedSince[credential, default: []].insert(since)
        }
    }

    func standing(of credential: CredentialID) -> Oracle.Standing? {
        guard let facts = facts[credential] else { return nil }
        let user = userFacts[credential.userID] ?? UserFacts()
        return Oracle(
            grants: facts.grants,
            tokens: facts.tokens.subtracting(facts.setAside),
            revocations: facts.revocations,
            answers: facts.answers,
            consentRevocations: user.consentRevoked,
            deletions: user.deleted,
            provedRevocations: user.revoked,
            accountEnds: user.ended,
            mails: user.mails,
            relays: user.relays
        ).standing
    }

    /// The displaced token, while siwatch keeps it.
    func formerToken(of credential: CredentialID) -> (token: Token, text: String)? {
        guard let facts = facts[credential], let former = facts.former, let text = former.text else { return nil }
        let user = userFacts[credential.userID] ?? UserFacts()
        let ends = user.deleted.union(user.consentRevoked)
        let revocations = facts.revocations.union(user.revoked)
        guard ends.allSatisfy({ former.token.grantedAt >= $0 }), revocations.allSatisfy({ former.token.grantedAt > $0 }) else { return nil }
        return (former.token, text)
    }

    func tokenText(of credential: CredentialID) -> String? {
        facts[credential].flatMap { facts in facts.token.flatMap { facts.texts[$0] } }
    }

    func knows(_ token: String, of credential: CredentialID) -> Bool { facts[credential]?.texts.values.contains(token) ?? false }

    func tokenIsOfNewestSignIn(_ credential: CredentialID) -> Bool {
        facts[credential].map { $0.token?.grantedAt == $0.grants.max() } ?? false
    }
}
