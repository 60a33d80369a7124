// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension UserHistory {
    /// All that happened and all that waits, oldest first.
    func lines(_ circumstances: Circumstances) -> [String] {
        let entries =
            grants.map(\.entry) + waiting.map { $0.entry(circumstances) } + notifications.map(\.entry) + revocations.map(\.entry)
            + changes.map(\.entry)
            + credentials.flatMap(\.answers)
        return entries.sorted { ($0.at, $0.rank) < ($1.at, $1.rank) }.map { "\($0.at.text)  \($0.kind.padded(to: 12))  \($0.text)" }
    }
}

private struct Entry {
    /// When it became true at Apple.
    var at: Timestamp
    /// Orders entries of the same time, so that a cause comes before its effect.
    var rank: Int
    var kind: String
    var text: String
}

extension UserHistory.LoggedGrant {
    fileprivate var entry: Entry {
        let more = detail.map { ": \($0.printable)" } ?? ""
        let words = reason.flatMap(GrantRejection.init).map { ", \($0.words)" } ?? ""
        let why = reason.map { " (\($0.printable)\(words)\(more))" } ?? ""
        let text = "\(clientID.printable): \(outcome.printable)\(why), settled \(settledAt.text)"
        return Entry(at: grantedAt, rank: 0, kind: "sign-in", text: text)
    }
}

extension UserHistory.Waiting {
    fileprivate func entry(_ circumstances: Circumstances) -> Entry {
        let isSignIn = queue == "grant"
        let place = clientID.printable + (isSignIn ? "" : ", request \(id)")
        let text = "\(place): \(wait(circumstances).words)"
        return Entry(at: at, rank: 0, kind: isSignIn ? "sign-in" : "revocation", text: text)
    }
}

extension UserHistory.LoggedNotification {
    fileprivate var entry: Entry {
        var text = "\(type.printable), jti \(jti.printable), \(clientID.printable): \(outcome.printable), "
        text += "received \(receivedAt.text), settled \(settledAt.text)"
        if let payload { text += "\n    \(payload.printable)" }
        return Entry(at: occurredAt, rank: 1, kind: "notification", text: text)
    }
}

extension RevocationReceipt {
    fileprivate var entry: Entry {
        let why = reason.map { " (\($0.printable))" } ?? ""
        let text = "\(clientID.printable): \(outcome.printable)\(why), \(words), settled \(settledAt.text)"
        return Entry(at: requestedAt, rank: 1, kind: "revocation", text: ([text] + proofLines).joined(separator: "\n    "))
    }
}

extension PublishedChange {
    fileprivate var entry: Entry {
        let what: String
        if let toState {
            what = "\(fromState?.printable ?? "nothing") → \(toState.printable) (\(reason?.printable ?? ""))"
        } else {
            what = "e-mail \(email?.printable ?? "none")" + (emailForwarding.map { ", forwarding \($0.printable)" } ?? "")
        }
        let source = source.printable + (notificationJTI.map { " \($0.printable)" } ?? "")
        let text = "\(clientID.printable): \(what), by \(source), recorded \(recordedAt.text)"
        return Entry(at: occurredAt, rank: 3, kind: "change", text: text)
    }
}

extension UserHistory.HeldCredential {
    /// What Apple last said of the token.
    fileprivate var answers: [Entry] {
        let answers = [(verifiedAt, "the token is good"), (rejectedAt, "the token is rejected (invalid_grant)")]
        return answers.compactMap { at, what in
            at.map { Entry(at: $0, rank: 2, kind: "answer", text: "\(clientID.printable): \(what)") }
        }
    }
}

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
        case .planted: "siwatch had not taken up this token, so somebody else wrote its row, and nothing was revoked"
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
