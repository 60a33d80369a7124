// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The report of `siwatch explain` on a user.
struct Explanation: Encodable {
    var userID: String
    /// The user's name in the log.
    var user: String?
    /// One sentence for each app.
    var conclusions: [String]
    private var history: UserHistory
    private let circumstances: Circumstances

    /// The newest rows of each log and queue that are shown; of revocations all are. A backend can insert millions for one user.
    static let mostRows = 1_000

    /// - Parameter concludes: whether the history is whole, so that the state follows from it.
    init(of userID: String, _ history: UserHistory, pseudonym: String?, _ circumstances: Circumstances, concludes: Bool) {
        self.userID = userID
        self.history = history
        self.circumstances = circumstances
        user = pseudonym
        conclusions = concludes ? history.conclusions(circumstances) : []
        if let unbelieved { conclusions.append("\(unbelieved.sentence): \(unbelieved.remedy)") }
    }

    /// That Apple's news of the user is in quarantine; nil if none is.
    var unbelieved: (sentence: String, remedy: String)? {
        guard !history.quarantined.isEmpty else { return nil }
        let reasons = Set(history.quarantined.map(\.reason)).sorted().joined(separator: ", ").printable
        let (ids, page) = (history.quarantined.map { "\($0.id)" }, Finding.page(ofRunbook: Runbook.rowsRejected.anchor))
        return (
            "Apple's news of the user is in quarantine (\(reasons)), and siwatch does not believe it",
            "mend the reason (\(page)), then siwatch quarantine retry \(ids.joined(separator: " "))"
        )
    }

    func encode(to encoder: any Encoder) throws {
        let (waiting, tokens) = (history.waiting, history.tokensBeingRevoked)
        let clients = Set(history.credentials.map(\.clientID) + waiting.map(\.clientID) + tokens.map(\.clientID))
        let refusals = history.refusals.filter { clients.contains($0.key) }
        let quarantined = history.quarantined.map { QuarantineReport($0) }
        // Without a name in the log, `user` is null.
        try encoder.encode(["userID": userID, "user": user as any Encodable, "conclusions": conclusions, "isCut": history.isCut])
        try encoder.encode([
            "users": history.users, "credentials": history.credentials, "grants": history.grants, "notifications": history.notifications,
            "revocations": history.revocations, "changes": history.changes, "waiting": waiting.map { $0.members(circumstances) },
            "tokensBeingRevoked": tokens.map { $0.members(circumstances) }, "quarantined": quarantined, "refusals": refusals,
        ])
    }

    var text: String {
        let head = "user \(userID.printable)" + (user.map { ", \($0) in the log" } ?? "")
        let addresses = history.users.compactMap { user -> String? in
            guard let email = user.email else { return nil }
            let privacy = user.emailIsPrivate.map { $0 ? ", Apple's relay" : ", the user's own" } ?? ""
            let forwarding = user.emailForwarding.map { ", forwarding \($0)" } ?? ""
            return "e-mail \(email.printable)\(privacy)\(forwarding) (\(user.app.printable))"
        }
        let cut = history.isCut ? ["only the newest \(Self.mostRows) rows of each log and queue; of revocations all"] : []
        let credentials = history.credentials.map { $0.text(circumstances) }
        let revoking = history.tokensBeingRevoked.map {
            "the token of \($0.tokenGrantedAt.text) at \($0.clientID.printable) is being revoked: \($0.words(circumstances))"
        }
        let pauses = history.users.compactMap { user in
            user.pausedAt.map { "the checks and revocations of \(user.app.printable) are paused since \($0.text)" }
        }
        let parts = [[head] + addresses, cut + history.lines(circumstances), credentials + revoking + pauses, conclusions]
        return parts.filter { !$0.isEmpty }.map { $0.joined(separator: "\n") }.joined(separator: "\n\n")
    }
}

extension UserHistory {
    fileprivate func conclusions(_ circumstances: Circumstances) -> [String] {
        if users.isEmpty {
            return waiting.isEmpty
                ? ["Nothing of this came to a credential."] : ["Nothing is known of the state: what was told still waits in its queue."]
        }
        return users.map { user in
            // If the command asks for one client, the state of that client's row; otherwise the user's state in the app.
            let held = credentials.filter { $0.app == user.app }
            let alone = held.count == 1 ? held[0] : nil
            let (state, reason, since) = (alone?.state ?? user.state, alone?.reason ?? user.reason, alone?.changedAt ?? user.changedAt)
            let when = since.map { " since \($0.text)" } ?? ""
            return "In \(user.app.printable): \(state.printable)\(when), because \(cause(reason, since, in: user))."
                + (state == "authorized" ? nextCheck(of: user, circumstances) : "")
        }
    }

    /// When siwatch finds a revocation that no notification told of; empty if it cannot say.
    private func nextCheck(of user: User, _ circumstances: Circumstances) -> String {
        let due = credentials.filter {
            $0.app == user.app && $0.holdsToken && $0.verifiedAt != nil && $0.tokenGrantedAt == $0.grantedAt && !$0.isBeingAsked
                && refusals[$0.clientID] == nil && circumstances.watched.contains($0.clientID)
        }
        .compactMap(\.nextCheckAt).min()
        guard user.pausedAt == nil, let due, due > circumstances.now else { return "" }
        return " If siwatch has missed that the user withdrew consent, the check at \(due.text) notices."
    }

    private func cause(_ reason: String, _ since: Timestamp?, in user: User) -> String {
        func notified(_ types: [String], _ what: String) -> String {
            let notification = notifications.first { $0.app == user.app && types.contains($0.type) && $0.occurredAt == since }
            return "Apple notified us that \(what)" + (notification.map { " (jti \($0.jti.printable))" } ?? "")
        }
        switch StateReason(rawValue: reason) {
        case .granted:
            let verified = user.verifiedAt.map { ", and Apple last confirmed the token at \($0.text)" } ?? ""
            let isNeverAccepted = credentials.contains { $0.app == user.app && $0.isNeverAccepted }
            let rejected = isNeverAccepted ? ", and a token that Apple has never accepted says nothing of it" : ""
            return "the user signed in then and nothing has ended that\(verified)\(rejected)"
        case .tokenRejected:
            let rejectedAt = credentials.filter { $0.app == user.app }.compactMap(\.rejectedAt).max()
            return "Apple accepted the token until then, and answered invalid_grant when asked again"
                + (rejectedAt.map { " at \($0.text)" } ?? "")
        case .consentRevoked: return notified(["consent-revoked"], "the user had withdrawn consent")
        case .accountDeleted: return notified(["account-delete", "account-deleted"], "the user had deleted the Apple account")
        case .revokedByApp:
            let proofs = [RevocationOutcome.proved, .alreadyInvalid].map(\.rawValue)
            let receipt = revocations.last { $0.app == user.app && proofs.contains($0.outcome) }
            return "the app asked for it then" + (receipt.map { ", and \($0.words)" } ?? ", and it was proved")
        case .neverGranted: return "a notification named the user, and no sign-in is known"
        case nil: return reason.printable
        }
    }
}

extension UserHistory.HeldCredential {
    /// What follows from Apple's last answer.
    private var meaning: String? {
        switch answer.flatMap(TokenAnswer.init) {
        case .valid: return nil
        case .rejected:
            if isNeverAccepted { return "Apple rejects the token and has never accepted it, so that it is not asked about again" }
            if let rejectionPendingAt { return "Apple rejected the token at \(rejectionPendingAt.text), which is not believed yet" }
            return isGreater(rejectedAt, than: verifiedAt)
                ? nil : "Apple rejected the token then, which was not believed: see the breaker, the client and the team in siwatch status"
        case .anotherUser:
            return "Apple accepts the token as another user's, so that it says nothing of this one: siwatch was told it for the wrong user"
        case .unclear:
            return """
                that answer said neither yes nor no of the token: the log has it as answer_ambiguous, or Apple named nobody in it, which \
                siwatch counts as unnamed
                """
        case nil: return nil
        }
    }

    fileprivate func text(_ circumstances: Circumstances) -> String {
        var parts = ["\(clientID.printable) is \(state.printable) (\(reason.printable))"]
        if let tokenGrantedAt {
            parts.append(
                holdsToken ? "the token of \(tokenGrantedAt.text) is kept, sealed" : "the token of \(tokenGrantedAt.text) is erased"
            )
        } else {
            parts.append("there is no token")
        }
        if let answeredAt { parts.append("Apple last answered at \(answeredAt.text)") }
        if let meaning { parts.append(meaning) }
        if failures > 0 { parts.append("\(failures.counted("check")) since then brought no answer") }
        if !circumstances.watched.contains(clientID) {
            parts.append("the client is not in the configuration, so nobody asks Apple about it")
        } else if isBeingAsked {
            parts.append("Apple is being asked")
        } else if let nextCheckAt {
            let refusal = circumstances.refusals[clientID]
            let isHeldUp = refusal != nil && nextCheckAt <= circumstances.now
            parts.append(isHeldUp ? "the check of \(nextCheckAt.text) waits" : "next check at \(nextCheckAt.text)")
            if let refusal { parts.append(refusal.words) }
        } else {
            parts.append("no further check")
        }
        return parts.joined(separator: "; ")
    }
}
