// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The report of `siwatch receipt` on a user. It holds no token.
struct RevocationReport: Encodable {
    var userID: String
    var receipts: [RevocationReceipt]
    /// Requests that are still in their queue.
    var waiting: [Request]

    init(of userID: String, _ history: UserHistory, watching clients: Set<String>, at now: Timestamp) {
        self.userID = userID
        receipts = history.revocations
        waiting = history.waiting.map { row in
            let tokens = history.tokensBeingRevoked.filter { $0.request == row.id }
            return Request(
                waiting: WaitingRow(row, watching: clients, history.refusals, at: now),
                tokens: tokens.map { TokenAtWork($0, watching: clients, history.refusals, at: now) }
            )
        }
    }

    struct Request: Encodable {
        var waiting: WaitingRow
        var tokens: [TokenAtWork]

        func encode(to encoder: any Encoder) throws {
            let row = waiting.row
            try encoder.encode([
                "request": row.id, "app": row.app, "clientID": row.clientID, "requestedAt": row.at, "openedAt": row.openedAt,
                "reason": waiting.reason, "words": waiting.text, "tokens": tokens,
            ])
        }
    }

    var text: String {
        func head(_ request: Int64, _ requestedAt: Timestamp, _ app: String?) -> [String] {
            ["", "request \(request), made at \(requestedAt.text)" + (app.map { ", in \($0.printable)" } ?? "")]
        }
        var lines = ["user \(userID.printable)"]
        for (number, receipt) in receipts.enumerated() {
            if number == 0 || receipts[number - 1].request != receipt.request {
                lines += head(receipt.request, receipt.requestedAt, receipt.app)
            }
            lines += receipt.lines
        }
        for request in waiting {
            let row = request.waiting.row
            if !receipts.contains(where: { $0.request == row.id }) { lines += head(row.id, row.at, row.app) }
            lines.append("  \(row.clientID.printable): \(request.waiting.text)")
            lines += request.tokens.map { work in
                "  \(work.token.clientID.printable): the token of the sign-in of \(work.token.tokenGrantedAt.text): \(work.words)"
            }
        }
        return lines.joined(separator: "\n")
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

    fileprivate var lines: [String] {
        let token = tokenGrantedAt.map { ", the token of the sign-in of \($0.text)" } ?? ""
        var lines = ["  \(clientID.printable)\(token)", "    \(outcome.printable): \(words)"]
        if let keyID = proof.keyID { lines.append("    signed for with the key \(keyID.printable)") }
        let answers = [("is it accepted?", proof.before), ("revoke it", proof.revocation), ("is it accepted still?", proof.after)]
        for case (let question, let answer?) in answers {
            let date = answer.date.map { ", dated \($0.text) by Apple" } ?? ""
            lines.append("    \(answer.askedAt.text)  \(question.padded(to: 22)) \(answer.words)\(date)")
        }
        return lines + ["    \(settledAt.text)  settled"]
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
