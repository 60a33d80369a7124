// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A row that is still in its queue, and what it waits for.
struct WaitingRow {
    var row: UserHistory.Waiting
    var reason: Reason
    /// When the wait ends, or when siwatch gives the row up, whichever comes first. Nil if nobody knows.
    var until: Timestamp?
    /// Whether siwatch gives the row up before the time of its date.
    private var isGivenUp = false
    /// Set if Apple refuses the client of the row.
    private var refusal: ClientRefusal?

    enum Reason: String, Encodable {
        /// For an app of the configuration to name its client.
        case client
        /// For siwatch to start with the configuration that names its client.
        case start
        /// For the time of its date.
        case time
        /// For its turn.
        case turn
        /// For Apple's answer to its code.
        case answer
        /// For another try of its code, after the road failed.
        case retry
        /// For nothing: its code has expired.
        case expiry
        /// For a sign-in of its user that is still in the queue, or for an earlier request about the same tokens.
        case earlier
        /// For the revocation of its tokens.
        case tokens
        /// For an operator to resume its app.
        case pause
        /// For Apple to accept its client.
        case refusal
        /// For an operator to confirm or drop it.
        case brake
    }

    /// - Parameters:
    ///   - clients: those of the configuration.
    ///   - refusals: the refusals of all clients that Apple refuses.
    init(_ row: UserHistory.Waiting, watching clients: Set<String>, _ refusals: [String: ClientRefusal], at now: Timestamp) {
        let refusal = refusals[row.clientID]
        self.row = row
        self.refusal = refusal
        let isConfigured = clients.contains(row.clientID)
        if row.queue == "revocation" {
            reason = Self.reason(ofRequest: row, at: now)
            return
        }
        if row.bringsCode {
            let deadline = min(row.at, row.waitsSince ?? now).advanced(by: AuthorizationCode.life)
            reason = Self.reason(ofCode: row, until: deadline, isConfigured: isConfigured, isRefused: refusal != nil, at: now)
            until = deadline
            return
        }
        let isPutOff = row.dueAt > now && !row.isClaimed
        let dated = row.at.advanced(by: .zero - SettlementRules.longestLead)
        // By Apple's clock, which this process does not know, the time may come later.
        let takenAt = dated > now || !isPutOff ? dated : row.dueAt
        let givenUpAt = row.waitsSince?.advanced(by: SettlementRules.longestGrantWait)
        if !isConfigured {
            reason = .client
            until = givenUpAt
        } else if takenAt > now, row.isAhead || !isPutOff {
            reason = .time
            until = givenUpAt.map { min($0, takenAt) } ?? takenAt
            isGivenUp = until != takenAt
        } else if isPutOff {
            reason = .start
        } else {
            reason = .turn
        }
    }

    private static func reason(
        ofCode row: UserHistory.Waiting,
        until deadline: Timestamp,
        isConfigured: Bool,
        isRefused: Bool,
        at now: Timestamp
    ) -> Reason {
        if row.isClaimed { return .answer }
        if deadline <= now { return .expiry }
        if !isConfigured { return .client }
        if isRefused { return .refusal }
        return row.failures > 0 ? .retry : .turn
    }

    private static func reason(ofRequest row: UserHistory.Waiting, at now: Timestamp) -> Reason {
        if row.openedAt != nil { return row.pausedAt == nil ? .tokens : .pause }
        if row.waitsSince != nil { return .brake }
        return row.dueAt > now && !row.isClaimed ? .earlier : .turn
    }

    var text: String {
        let end = until.map { "until \($0.text)" } ?? "for five minutes"
        let lost = row.isAnswerLost ? "; Apple may have taken it already, with nobody to hear the answer" : ""
        switch reason {
        case .client where row.bringsCode:
            return "brings a code, which waits \(end) for an app of the configuration to name this client, and is then rejected"
        case .client:
            let end =
                until.map { "until \($0.text), and is then rejected" }
                ?? "for a week, which begins once siwatch has looked at it under a clock that agrees with Apple's"
            return "waits for an app of the configuration to name this client, \(end)"
        case .start: return "waits for siwatch's next start, which takes its client in"
        case .time:
            return "is dated ahead of the clock and waits until \(until?.text ?? "then")"
                + (isGivenUp ? ", and is then given up as in_future" : "")
        case .turn: return row.bringsCode ? "brings a code, which waits for its turn \(end)\(lost)" : "waits for its turn"
        case .answer: return "brings a code, and Apple is being asked to exchange it\(lost)"
        case .expiry:
            return "brings a code whose five minutes were over at \(until?.text ?? "then"); siwatch rejects it when it runs\(lost)"
        case .retry:
            let isBlamed = row.detail.map(ClientRefusal.isWord) ?? false
            let tries = isBlamed ? "Apple refused the client" : "\(row.failures) tries brought no answer"
            let word = row.detail.map { " (\($0.printable))" } ?? ""
            return "brings a code; \(tries)\(word), and it is tried again \(end)\(lost)"
        case .refusal: return "brings a code, which waits \(end): \(refusal?.words ?? "Apple refuses the client")\(lost)"
        case .earlier:
            return "waits for a sign-in of this user that is still in its queue, or for an earlier request about the same tokens"
        case .tokens: return "its tokens are being revoked"
        case .pause: return "its tokens wait for siwatch resume \(row.app?.printable ?? "")"
        case .brake:
            return "too many requests to revoke came, so it waits for an operator: see siwatch revocations"
        }
    }
}

extension WaitingRow: Encodable {
    func encode(to encoder: any Encoder) throws {
        try encoder.encode([
            "queue": row.queue, "clientID": row.clientID, "at": row.at, "waitsSince": row.waitsSince, "openedAt": row.openedAt,
            "reason": reason, "refusal": reason == .refusal ? refusal : nil, "until": until,
        ])
        guard row.bringsCode else { return }
        try encoder.encode([
            "bringsCode": true, "failures": row.failures, "isAnswerLost": row.isAnswerLost, "detail": row.detail,
        ])
    }
}
