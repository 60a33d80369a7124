// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What decides, beside a user's rows, what they wait for.
struct Circumstances {
    /// The clients of the configuration.
    var watched: Set<String>
    var refusals: [String: ClientRefusal]
    var now: Timestamp
}

/// What a row that is still in its queue waits for.
struct Wait {
    var reason: Reason
    /// For people, as the end of a sentence.
    var words: String
    /// When the wait ends, or when siwatch gives the row up, whichever comes first. Nil if nobody knows.
    var until: Timestamp?

    enum Reason: String, Encodable {
        case client, start, time, turn, answer, retry, expiry, earlier, tokens, pause, refusal, limit
    }

    init(_ reason: Reason, until: Timestamp? = nil, _ words: String) {
        (self.reason, self.until, self.words) = (reason, until, words)
    }
}

extension UserHistory.Waiting {
    func wait(_ circumstances: Circumstances) -> Wait {
        if queue == "revocation" { return waitOfRequest(at: circumstances.now) }
        return bringsCode ? waitOfCode(circumstances) : waitOfSignIn(circumstances)
    }

    private func waitOfRequest(at now: Timestamp) -> Wait {
        if openedAt != nil {
            return pausedAt == nil
                ? Wait(.tokens, "its tokens are being revoked")
                : Wait(.pause, "its tokens wait for siwatch resume \(app?.printable ?? "")")
        }
        if waitsSince != nil { return Wait(.limit, "too many requests to revoke came, so it waits for an operator: see siwatch status") }
        guard dueAt > now, !isClaimed else { return Wait(.turn, "waits for its turn") }
        let causes = "for a sign-in of this user that is still in its queue, or for an earlier request about the same tokens"
        return Wait(.earlier, "waits \(causes)")
    }

    private func waitOfCode(_ circumstances: Circumstances) -> Wait {
        let deadline = min(at, waitsSince ?? circumstances.now).advanced(by: AuthorizationCode.life)
        let end = "until \(deadline.text)"
        func wait(_ reason: Wait.Reason, _ words: String) -> Wait {
            let lost = isAnswerLost ? "; Apple may have taken it already, with nobody to hear the answer" : ""
            return Wait(reason, until: deadline, "brings a code\(words)\(lost)")
        }
        if isClaimed { return wait(.answer, ", and Apple is being asked to exchange it") }
        if deadline <= circumstances.now {
            return wait(.expiry, " whose five minutes were over at \(deadline.text); siwatch rejects it when it runs")
        }
        if !circumstances.watched.contains(clientID) {
            return wait(.client, ", which waits \(end) for an app of the configuration to name this client, and is then rejected")
        }
        if let refusal = circumstances.refusals[clientID] { return wait(.refusal, ", which waits \(end): \(refusal.words)") }
        guard failures > 0 else { return wait(.turn, ", which waits for its turn \(end)") }
        let isBlamed = detail.map(ClientRefusal.isWord) ?? false
        let tries = isBlamed ? "Apple refused the client" : "\(failures) tries brought no answer"
        let word = detail.map { " (\($0.printable))" } ?? ""
        return wait(.retry, "; \(tries)\(word), and it is tried again \(end)")
    }

    private func waitOfSignIn(_ circumstances: Circumstances) -> Wait {
        let now = circumstances.now
        let isPutOff = dueAt > now && !isClaimed
        let dated = at.advanced(by: .zero - SettlementRules.longestLead)
        // By Apple's clock, which this process does not know, the time may come later.
        let takenAt = dated > now || !isPutOff ? dated : dueAt
        let givenUpAt = waitsSince?.advanced(by: SettlementRules.longestGrantWait)
        guard circumstances.watched.contains(clientID) else {
            let end =
                givenUpAt.map { "until \($0.text), and is then rejected" }
                ?? "for a week, which begins once siwatch has looked at it under a clock that agrees with Apple's"
            return Wait(.client, until: givenUpAt, "waits for an app of the configuration to name this client, \(end)")
        }
        if takenAt > now, isAhead || !isPutOff {
            let end = givenUpAt.map { min($0, takenAt) } ?? takenAt
            let loss = end == takenAt ? "" : ", and is then given up as in_future"
            return Wait(.time, until: end, "is dated ahead of the clock and waits until \(end.text)\(loss)")
        }
        return isPutOff
            ? Wait(.start, "waits for siwatch's next start, which takes its client in") : Wait(.turn, "waits for its turn")
    }

    func members(_ circumstances: Circumstances) -> Members {
        let wait = self.wait(circumstances)
        let code = bringsCode ? self : nil
        return [
            "queue": queue, "id": id, "app": app, "clientID": clientID, "at": at, "waitsSince": waitsSince, "openedAt": openedAt,
            "reason": wait.reason, "words": wait.words, "until": wait.until,
            "refusal": wait.reason == .refusal ? circumstances.refusals[clientID] : nil, "bringsCode": code?.bringsCode,
            "failures": code?.failures, "isAnswerLost": code?.isAnswerLost, "detail": code?.detail,
        ]
    }
}

extension TokenBeingRevoked {
    /// How far the proof is, and what the token waits for.
    func words(_ circumstances: Circumstances) -> String {
        let next =
            if !circumstances.watched.contains(clientID) {
                "which waits for an app of the configuration to name its client"
            } else if isClaimed {
                proof.next == .isBelieved ? "that is looked at now" : "Apple is being asked"
            } else if let refusal = circumstances.refusals[clientID] {
                "that waits: \(refusal.words)"
            } else {
                dueAt > circumstances.now ? "next at \(dueAt.text)" : "that waits for its turn"
            }
        return "\(proof.words); \(next)"
    }

    func members(_ circumstances: Circumstances) -> Members {
        [
            "before": proof.before, "revocation": proof.revocation, "after": proof.after, "request": request, "clientID": clientID,
            "tokenGrantedAt": tokenGrantedAt, "rounds": proof.rounds, "failures": proof.failures, "dueAt": dueAt,
            "refusal": circumstances.refusals[clientID], "words": words(circumstances),
        ]
    }
}

extension RevocationProof {
    fileprivate var words: String {
        var parts: [String]
        switch next {
        case .isAccepted: parts = ["Apple is to be asked whether it accepts it"]
        case .revoke: parts = ["Apple accepted it at \(before?.askedAt.text ?? ""), and is to be asked to revoke it"]
        case .isStillAccepted:
            let doubt = revocation?.word == .unheard ? ", which may have worked although no answer came" : ""
            let asked = "Apple was asked to revoke it at \(revocation?.askedAt.text ?? "")\(doubt)"
            parts = ["\(asked), and is to be asked whether it accepts it still"]
        case .isBelieved:
            parts = [
                "Apple rejected it at \(before?.askedAt.text ?? "") when first asked. siwatch believes that once Apple rejects it again, "
                    + "has accepted another token of this client with the same key in between, the settle time has passed, "
                    + "and the breaker holds no rejection of this client"
            ]
        }
        if rounds > 0 { parts.append("Apple has accepted it still after \(rounds) revocations") }
        if failures > 0 { parts.append("\(failures.counted("question")) since then brought no answer") }
        return parts.joined(separator: "; ")
    }
}
