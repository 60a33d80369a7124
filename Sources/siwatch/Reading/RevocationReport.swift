// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The report of `siwatch receipt` on a user. It holds no token.
struct RevocationReport: Encodable {
    var userID: String
    var receipts: [Receipt]
    /// Requests that are still in their queue.
    var waiting: [Request]

    init(of userID: String, _ revocations: UserRevocations, under configuration: Configuration, at now: Timestamp) {
        self.userID = userID
        receipts = revocations.receipts.map(Receipt.init)
        waiting = revocations.waiting.map { row in
            let tokens = revocations.tokens.filter { $0.request == row.id }
            return Request(
                WaitingRow(row, under: configuration, revocations.refusals, at: now),
                tokens.map { TokenAtWork($0, under: configuration, revocations.refusals, at: now) }
            )
        }
    }

    var text: String {
        var lines = ["user \(userID.printable)"]
        for (number, receipt) in receipts.enumerated() {
            if number == 0 || receipts[number - 1].request != receipt.request {
                lines += ["", "request \(receipt.request), made at \(receipt.requestedAt.text)" + inApp(receipt.app)]
            }
            lines += receipt.lines
        }
        for request in waiting {
            if !receipts.contains(where: { $0.request == request.request }) {
                lines += ["", "request \(request.request), made at \(request.requestedAt.text)" + inApp(request.app)]
            }
            lines.append("  \(request.clientID.printable): \(request.words)")
            lines += request.tokens.map { "  \($0.clientID.printable): the token of the sign-in of \($0.tokenGrantedAt.text): \($0.words)" }
        }
        return lines.joined(separator: "\n")
    }

    private func inApp(_ app: String?) -> String { app.map { ", in \($0.printable)" } ?? "" }
}

extension RevocationReport {
    /// The proof for one token, or the end of a request without tokens.
    struct Receipt: Encodable {
        var id: Int64
        var request: Int64
        var app: String?
        var clientID: String
        var requestedAt: Timestamp
        var tokenGrantedAt: Timestamp?
        var keyID: String?
        /// Apple's answer to the first refresh.
        var before: Answer?
        var revocation: Answer?
        /// Apple's answer to the last refresh.
        var after: Answer?
        var settledAt: Timestamp
        var outcome: String
        var reason: String?
        /// The outcome, for people.
        var words: String

        init(_ receipt: RevocationReceipt) {
            id = receipt.id
            request = receipt.request
            app = receipt.app
            clientID = receipt.clientID
            requestedAt = receipt.requestedAt
            tokenGrantedAt = receipt.tokenGrantedAt
            keyID = receipt.proof.keyID
            before = receipt.proof.before.map(Answer.init)
            revocation = receipt.proof.revocation.map(Answer.init)
            after = receipt.proof.after.map(Answer.init)
            settledAt = receipt.settledAt
            outcome = receipt.outcome
            reason = receipt.reason
            words = receipt.words
        }

        fileprivate var lines: [String] {
            let token = tokenGrantedAt.map { ", the token of the sign-in of \($0.text)" } ?? ""
            var lines = ["  \(clientID.printable)\(token)", "    \(outcome.printable): \(words)"]
            if let keyID { lines.append("    signed for with the key \(keyID.printable)") }
            let answers = [("is it accepted?", before), ("revoke it", revocation), ("is it accepted still?", after)]
            for case (let question, let answer?) in answers {
                let date = answer.date.map { ", dated \($0.text) by Apple" } ?? ""
                lines.append("    \(answer.askedAt.text)  \(question.padded(to: 22)) \(answer.words)\(date)")
            }
            return lines + ["    \(settledAt.text)  settled"]
        }
    }

    struct Answer: Encodable {
        /// When Apple was asked, by siwatch's clock.
        var askedAt: Timestamp
        /// Apple's clock in the answer, to the second.
        var date: Timestamp?
        var answer: String

        init(_ answer: RevocationProof.Answer) {
            askedAt = answer.askedAt
            date = answer.date
            self.answer = answer.word.rawValue
        }

        fileprivate var words: String {
            switch RevocationProof.Answer.Word(rawValue: answer) {
            case .accepted: "200, accepted"
            case .revoked: "200"
            case .unheard: "no answer came"
            case .rejected, nil: answer
            }
        }
    }

    struct Request: Encodable {
        var request: Int64
        var app: String?
        var clientID: String
        var requestedAt: Timestamp
        /// When work on its tokens began.
        var openedAt: Timestamp?
        var reason: WaitingRow.Reason
        /// What the request waits for, for people.
        var words: String
        var tokens: [TokenAtWork]

        init(_ waiting: WaitingRow, _ tokens: [TokenAtWork]) {
            request = waiting.row.id
            app = waiting.row.app
            clientID = waiting.row.clientID
            requestedAt = waiting.row.at
            openedAt = waiting.row.openedAt
            reason = waiting.reason
            words = waiting.text
            self.tokens = tokens
        }
    }
}

extension RevocationReceipt {
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
