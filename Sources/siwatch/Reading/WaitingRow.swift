// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A row that has not left its queue, and what it waits for.
struct WaitingRow {
    var row: UserHistory.Waiting
    var reason: Reason
    /// When what it waits for comes, or when siwatch gives it up, whichever is first; nil where nobody knows.
    var until: Timestamp?
    /// Whether siwatch then gives it up.
    var isGivenUp = false

    enum Reason: String, Encodable {
        /// For an app of the configuration to name its client.
        case client
        /// For siwatch to start with the configuration that names its client.
        case start
        /// For the time it is dated.
        case time
        /// For a siwatch that takes rows of its kind.
        case version
        /// For its turn.
        case turn
    }

    init(_ row: UserHistory.Waiting, under configuration: Configuration, at now: Timestamp) {
        self.row = row
        let isConfigured = configuration.apps.contains { $0.clientIDs.contains(row.clientID) }
        let takenAt = row.at.advanced(by: .zero - configuration.queues.clockSkew)
        let givenUpAt = row.waitsSince?.advanced(by: SettlementRules.longestGrantWait)
        if row.queue != "grant" || row.bringsCode {
            reason = .version
        } else if !isConfigured {
            reason = .client
            until = givenUpAt
            isGivenUp = true
        } else if takenAt > now {
            reason = .time
            until = givenUpAt.map { min($0, takenAt) } ?? takenAt
            isGivenUp = until != takenAt
        } else if row.dueAt > now, !row.isClaimed {
            reason = .start
        } else {
            reason = .turn
        }
    }

    var text: String {
        switch reason {
        case .client:
            let end =
                until.map { "until \($0.text), and is then rejected" }
                ?? "for a week, which begins once siwatch has looked at it under a clock that agrees with Apple's"
            return "waits for an app of the configuration to name this client, \(end)"
        case .start: return "waits for siwatch's next start, which takes its client in"
        case .time:
            return "is dated ahead of this host's clock and waits until \(until?.text ?? "then")"
                + (isGivenUp ? ", and is then given up as in_future" : "")
        case .version:
            return row.bringsCode
                ? "brings an authorization code, which is not taken yet; exchange it and insert the token" : "is not taken yet"
        case .turn: return "waits for its turn"
        }
    }
}

extension WaitingRow: Encodable {
    private enum CodingKeys: CodingKey {
        case queue, clientID, at, waitsSince, reason, until
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(row.queue, forKey: .queue)
        try container.encode(row.clientID, forKey: .clientID)
        try container.encode(row.at, forKey: .at)
        try container.encodeIfPresent(row.waitsSince, forKey: .waitsSince)
        try container.encode(reason, forKey: .reason)
        try container.encodeIfPresent(until, forKey: .until)
    }
}
