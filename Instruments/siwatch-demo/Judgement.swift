// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What siwatch says beside what is true: figures, and the credentials on which they disagree.
struct Judgement {
    private let observation: Observation
    private let truth: [UserTruth]
    private let ledger: Ledger

    init(of observation: Observation, against truth: [UserTruth], _ ledger: Ledger) {
        self.observation = observation
        self.truth = truth
        self.ledger = ledger
    }

    var isRight: Bool { figures.allSatisfy(\.isRight) }

    var figures: [Figure] { people + oneByOne + logs }

    private var people: [Figure] {
        let reasons = truth.map { $0.expectedReason(ledger) }
        let forwarding = truth.map { $0.expectedForwarding(ledger) }
        func state(_ name: String, _ reason: String) -> Figure {
            .equal(name, reasons.count { $0 == reason }, observation.tally[.state, reason])
        }
        func mail(_ name: String, _ status: String) -> Figure {
            .equal(name, forwarding.count { $0 == status }, observation.tally[.forwarding, status])
        }
        return [
            .equal("people", truth.count, observation.users.count),
            state("  authorized", "granted"),
            state("  revoked, as Apple has told", "consent_revoked"),
            state("  revoked, as only a check could find", "token_rejected"),
            state("  not found, their account being deleted", "account_deleted"),
            mail("  with their mail switched off", "disabled"),
            mail("  with their mail on again", "enabled"),
        ]
    }

    // MARK: One by one

    private var expectations: [(name: CredentialName, expected: Expectation)] {
        truth.flatMap { user in
            user.credentials.map { credential in
                (CredentialName(userID: user.userID, clientID: credential.clientID), Expectation(credential, of: user.userID, ledger))
            }
        }
    }

    private var oneByOne: [Figure] {
        let expectations = self.expectations
        let met = expectations.count { $0.expected.isMet(by: observation.credentials[$0.name]) }
        let users = truth.count { user in
            let seen = observation.users[user.userID]
            return seen?.reason == user.expectedReason(ledger) && seen?.forwarding == user.expectedForwarding(ledger)
        }
        return [
            .equal("people, compared one by one", truth.count, users),
            .equal("credentials, and since when: one by one", expectations.count, met),
            .equal("credentials in the table", expectations.count, observation.credentials.count),
            .equal("revocations ever published without cause", 0, observation.endings.count { !isJust($0) }),
        ]
    }

    /// Whether the person's consent had ended by then, and siwatch knew of no newer sign-in there.
    private func isJust(_ change: Observation.Ending) -> Bool {
        (ledger.endings[change.credential.userID] ?? []).contains { ended in
            let newer = observation.grants[change.credential]?.filter { $0.grantedAt > ended }.map(\.settledAt).min() ?? .max
            return ended <= change.recordedAt && change.recordedAt <= newer && change.occurredAt < newer
        }
    }

    /// A sentence on each credential that is not as it should be.
    var disagreements: [String] {
        expectations.compactMap { name, expected in
            let found = observation.credentials[name]
            if expected.isMet(by: found) { return nil }
            let should = "\(expected.state) \(expected.reason) \(expected.changedAt.map { "\($0)" } ?? "")"
            let does = found.map { "\($0.state) \($0.reason) \($0.changedAt.map { "\($0)" } ?? "")" } ?? "nothing"
            return "  \(name.userID) at \(name.clientID) should be: \(should); siwatch says: \(does)"
        }
    }

    // MARK: Logs

    private var logs: [Figure] {
        compare("sign-ins", ledger.grants, observation.tally[.grantLog])
            + compare("notifications", ledger.notifications, observation.tally[.notificationLog])
            + compare("quarantined:", ledger.rejections, observation.tally[.quarantine])
            + [.equal("rows left in the queues", 0, observation.tally.total(.queue))]
    }

    /// A figure for each name that either side knows.
    private func compare(_ what: String, _ expected: [String: Int], _ found: [String: Int]) -> [Figure] {
        Set(expected.keys).union(found.keys).sorted().map { .equal("\(what) \($0)", expected[$0] ?? 0, found[$0] ?? 0) }
    }

    // MARK: Checks

    /// Whether siwatch has on record the latest time that Apple called a token good. Once siwatch is stopped, nothing is under way.
    var latestChecks: Figure {
        var tokens = 0
        var right = 0
        for user in truth {
            for credential in user.credentials where credential.state == "authorized" {
                // An older token of theirs may have been asked about in the meantime.
                guard ledger.signIns(of: user.userID, at: credential.clientID) == 1 else { continue }
                tokens += 1
                let name = CredentialName(userID: user.userID, clientID: credential.clientID)
                let asked = observation.credentials[name]?.verifiedAt
                let answers = credential.refreshes.answeredAt
                // Noted is the moment of the question: before this answer, after the one before.
                if let asked, let last = answers.last, asked <= last, asked > answers.dropLast().last ?? 0 { right += 1 }
                if asked == nil, answers.isEmpty { right += 1 }
            }
        }
        return .equal("tokens whose latest check is on record", tokens, right)
    }

    // MARK: Time

    /// How long a notification took from its row to the state, in milliseconds, ascending.
    var notificationDelays: [Int] { observation.delays }

    /// How long it took to find the revocations that nobody told, in milliseconds, ascending.
    var discoveryDelays: [Int] {
        observation.endings.filter { $0.reason == "token_rejected" }.compactMap { change in
            let untold = ledger.endings[change.credential.userID]?.last { time in
                time <= change.recordedAt && !ledger.isKnown(Ledger.Ending(userID: change.credential.userID, time: time))
            }
            return untold.map { Int(change.recordedAt - $0) }
        }
        .sorted()
    }
}
