// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension RevocationReceipt: Encodable {
    package func encode(to encoder: any Encoder) throws {
        try proof.encode(to: encoder)
        try encoder.encode([
            "id": id, "request": request, "app": app, "clientID": clientID, "requestedAt": requestedAt, "tokenGrantedAt": tokenGrantedAt,
            "keyID": proof.keyID, "settledAt": settledAt, "outcome": outcome, "reason": reason, "words": words,
        ])
    }

    /// What proves the outcome, one line each.
    var proofLines: [String] {
        let token = tokenGrantedAt.map { ", the token of the sign-in of \($0.text)" } ?? ""
        let key = proof.keyID.map { ", signed for with the key \($0.printable)" } ?? ""
        let answers = [("is it accepted?", proof.before), ("revoke it", proof.revocation), ("is it accepted still?", proof.after)]
        return ["request \(request)\(token)\(key)"]
            + answers.compactMap { question, answer in
                guard let answer else { return nil }
                let date = answer.date.map { ", dated \($0.text) by Apple" } ?? ""
                return "\(answer.askedAt.text)  \(question.padded(to: 22)) \(answer.words)\(date)"
            }
    }

    /// The outcome, for people.
    var words: String {
        switch RevocationOutcome(rawValue: outcome) {
        case .proved where proof.revocation?.word == .unheard:
            "Apple accepted the token, was asked to revoke it, which it did not answer, and accepts it no more"
        case .proved: "Apple accepted the token, was asked to revoke it, and accepts it no more"
        case .alreadyInvalid: "Apple did not accept the token any more when it was first asked, and said so twice"
        case .superseded:
            proof.revocation == nil
                ? "the user has signed in again since the request, so nothing was revoked"
                : "the user has signed in again since the request; Apple had been asked to revoke the older token by then"
        case .noToken: "no token was held that could be revoked"
        case .noValidToken: "Apple rejects the token and had never accepted it as the newest of this user, so nothing was revoked"
        case .rejected: rejection
        case nil: outcome.printable
        }
    }

    private var rejection: String {
        switch reason.flatMap(RevocationRejection.init) {
        case .unknownClient: "no app of the configuration named this client, so nothing was revoked"
        case .malformed: "the request was not text or too long to be meant, so nothing was revoked"
        case .poison: "siwatch died five times while it held it, and gave it up"
        case .revocationsDisabled:
            "the configuration says revocations = false for its app, so \(proof.revocation == nil ? "nothing was revoked" : "no more was asked")"
        case .anotherUser: "Apple accepts the token as another user's, so it was not revoked"
        case .dropped: "too many requests came at once, and an operator has dropped this one, so nothing was revoked"
        case .unnamedUser: "Apple accepts the token without saying whose it is, so it was not revoked"
        case .otherTeam:
            "Apple had accepted the token from another team and rejects it to this one, so whether it is dead could not be found out"
        case nil: reason?.printable ?? ""
        }
    }
}

extension RevocationProof.Answer {
    fileprivate var words: String {
        switch word {
        case .accepted: "200, accepted"
        case .revoked: "200"
        case .unheard: "no answer came"
        case .rejected: word.rawValue
        }
    }
}
