// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import GRDB

/// Compares siwatch's tables with the truth: figures, and the credentials on which they disagree.
package struct Audit {
    /// The expected number, siwatch's number, and whether they agree.
    package struct Figure: Sendable, Equatable, CustomStringConvertible {
        package let name: String
        package let expected: Int
        package let found: Int
        package let isRight: Bool

        package init(_ name: String, _ expected: Int, _ found: Int) {
            (self.name, self.expected, self.found, isRight) = (name, expected, found, expected == found)
        }

        package init(_ name: String, least: Int, _ found: Int) {
            (self.name, expected, self.found, isRight) = (name, least, found, found >= least)
        }

        package var description: String { "\(name.drop { $0 == " " }): \(expected) expected, \(found) found" }
    }

    private struct Name: Hashable {
        var userID: String
        var clientID: String
    }

    private let truth: [UserTruth]
    private let ledger: Ledger
    private let tally: Tally
    private let credentials: [Name: Row]
    private let users: [String: Row]
    /// The rows of `credential_change` that end an authorization.
    private let endings: [Row]
    private let grants: [Name: [Row]]
    /// How long each notification took from its row to the state, in milliseconds, ascending.
    package let notificationDelays: [Int]
    /// How long each code took from its row to the sign-in, in milliseconds, ascending.
    package let codeDelays: [Int]

    init(of backend: Backend, against truth: [UserTruth], _ ledger: Ledger) async throws {
        func name(_ row: Row) -> Name { Name(userID: row["user_id"], clientID: row["client_id"]) }
        (self.truth, self.ledger) = (truth, ledger)
        tally = try await Tally(of: backend)
        credentials = Dictionary(uniqueKeysWithValues: try await backend.rows("SELECT * FROM credential_state").map { (name($0), $0) })
        users = Dictionary(uniqueKeysWithValues: try await backend.rows("SELECT * FROM user_state").map { ($0["user_id"], $0) })
        endings = try await backend.rows("SELECT * FROM credential_change WHERE kind = 'state' AND to_state <> 'authorized'")
        // A code that brought no sign-in names nobody.
        grants = Dictionary(grouping: try await backend.rows("SELECT * FROM grant_log WHERE user_id IS NOT NULL"), by: name)
        codeDelays = grants.values.joined().filter { row in
            row["outcome"] == "applied" && ledger.isByCode(row["user_id"], at: row["client_id"])
        }.map { ($0["settled_at"] as Int) - ($0["granted_at"] as Int) }.sorted()
        notificationDelays = try await backend.rows("SELECT settled_at - received_at FROM notification_log ORDER BY 1").map { $0[0] }
    }

    package var wrong: [Figure] { figures.filter { !$0.isRight } }
    package var expectedAuthorized: Int { truth.count { ledger.expectedReason($0) == "granted" } }

    package var figures: [Figure] {
        let reasons = truth.map(ledger.expectedReason)
        let forwarding = truth.map(ledger.expectedForwarding)
        func state(_ name: String, _ reason: String) -> Figure { Figure(name, reasons.count { $0 == reason }, tally[.state, reason]) }
        func mail(_ name: String, _ status: String) -> Figure {
            Figure(name, forwarding.count { $0 == status }, tally[.forwarding, status])
        }
        /// A figure for each name on either side.
        func log(_ what: String, _ expected: [String: Int], _ found: [String: Int]) -> [Figure] {
            Set(expected.keys).union(found.keys).sorted().map { Figure("\(what) \($0)", expected[$0] ?? 0, found[$0] ?? 0) }
        }
        let proofs = tally[.revocationLog, "proved"] + tally[.revocationLog, "already_invalid"]
        return [
            Figure("people", truth.count, users.count),
            state("  authorized", "granted"),
            state("  revoked, as Apple has told", "consent_revoked"),
            state("  revoked, as only a check could find", "token_rejected"),
            state("  revoked, as the app wanted", "revoked_by_app"),
            state("  not found, their account being deleted", "account_deleted"),
            mail("  with their mail switched off", "disabled"),
            mail("  with their mail on again", "enabled"),
            Figure("people, compared one by one", truth.count, truth.count(where: isShown)),
            Figure("credentials, and since when: one by one", expectedCredentials, expectedCredentials - disagreements.count),
            Figure("credentials in the table", expectedCredentials, credentials.count),
            Figure("revocations ever published without cause", 0, endings.count { !isJust($0) }),
        ]
            + log("sign-ins", ledger.grants, tally[.grantLog])
            + log("notifications", ledger.notifications, tally[.notificationLog])
            + log("quarantined:", ledger.rejections, tally[.quarantine])
            + [
                Figure("tokens proved to be revoked", expectedProofs, proofs),
                Figure("rows left in the queues", 0, tally.total(.queue)),
            ]
    }

    /// A token revoked more than once may have been dead by the second time.
    private var expectedProofs: Int { truth.filter { ledger.leaving.contains($0.userID) }.reduce(0) { $0 + $1.credentials.count } }
    private var expectedCredentials: Int { truth.reduce(0) { $0 + $1.credentials.count } }

    package var disagreements: [String] {
        truth.flatMap { user in
            user.credentials.compactMap { credential in
                let expected = ledger.expected(credential, of: user.userID)
                let found = credentials[Name(userID: user.userID, clientID: credential.clientID)].map {
                    (state: $0["state"] as String, reason: $0["reason"] as String, changedAt: $0["changed_at"] as Int64?)
                }
                if let found, (found.state, found.reason) == (expected.state, expected.reason),
                    expected.changedAt == nil || expected.changedAt == found.changedAt
                {
                    return nil
                }
                func words(_ standing: (state: String, reason: String, changedAt: Int64?)) -> String {
                    "\(standing.state) \(standing.reason) \(standing.changedAt.map { "\($0)" } ?? "")"
                }
                let does = found.map(words) ?? "nothing"
                return "  \(user.userID) at \(credential.clientID) should be: \(words(expected)); siwatch says: \(does)"
            }
        }
    }

    private func isShown(_ user: UserTruth) -> Bool {
        guard let row = users[user.userID] else { return false }
        return row["reason"] == ledger.expectedReason(user) && row["email_forwarding"] == ledger.expectedForwarding(user)
    }

    /// Whether the user's consent had ended by then, and siwatch knew of no newer sign-in there.
    private func isJust(_ change: Row) -> Bool {
        let (occurredAt, recordedAt): (Int64, Int64) = (change["occurred_at"], change["recorded_at"])
        let grants = grants[Name(userID: change["user_id"], clientID: change["client_id"])] ?? []
        return (ledger.endings[change["user_id"]] ?? []).contains { ended in
            let newer: Int64 = grants.filter { $0["granted_at"] > ended.milliseconds }.map { $0["settled_at"] }.min() ?? .max
            return ended.milliseconds <= recordedAt && recordedAt <= newer && occurredAt < newer
        }
    }

    /// Whether siwatch recorded the latest time that Apple called a token good. A stopped siwatch has no requests under way.
    package var latestChecks: Figure {
        // A user with two sign-ins at a client may have an older token that siwatch asked about meanwhile.
        let checks = truth.flatMap { user in
            user.credentials.filter { $0.state == .authorized && hasOneToken($0, of: user) }.map { credential in
                let name = Name(userID: user.userID, clientID: credential.clientID)
                let asked: Int64? = credentials[name].flatMap { $0["verified_at"] }
                let answers = credential.refreshes.answeredAt.map(\.milliseconds)
                // The exchange of a code is an answer about its token, too.
                let isExchange = answers.isEmpty && ledger.isByCode(user.userID, at: credential.clientID)
                return (asked: isExchange ? nil : asked, answers: answers)
            }
        }
        let right = checks.count { asked, answers in
            guard let asked, let last = answers.last else { return asked == nil && answers.isEmpty }
            // siwatch records the moment of the request: before this answer, after the previous one.
            return asked <= last && asked > answers.dropLast().last ?? 0
        }
        return Figure("tokens whose latest check is on record", checks.count, right)
    }

    /// How often siwatch asked about a token again within an interval of its answer. Users who left the app do not count, because siwatch
    /// asks about their tokens before and after the revocation.
    package func repetitions(within interval: Duration) -> Int {
        truth.filter { !ledger.leaving.contains($0.userID) }.reduce(0) { sum, user in
            user.credentials.filter { hasOneToken($0, of: user) }.reduce(sum) { sum, credential in
                let answers = credential.refreshes.answeredAt
                return sum + zip(answers, answers.dropFirst()).count { $1 - $0 < interval }
            }
        }
    }

    private func hasOneToken(_ credential: CredentialTruth, of user: UserTruth) -> Bool {
        ledger.signIns(of: user.userID, at: credential.clientID) == 1
    }

    /// How long siwatch took to find the revocations without a notification, in milliseconds, ascending.
    package var discoveryDelays: [Int] {
        endings.filter { $0["reason"] == "token_rejected" }.compactMap { change in
            let (userID, recordedAt): (String, Int64) = (change["user_id"], change["recorded_at"])
            let untold = ledger.endings[userID]?.last { $0.milliseconds <= recordedAt && !ledger.isKnown($0, of: userID) }
            return untold.map { Int(recordedAt - $0.milliseconds) }
        }
        .sorted()
    }
}

/// The numbers of rows by table and value, from one consistent read of the database.
package struct Tally: Sendable {
    package enum Subject: String {
        /// Users, by reason.
        case state
        /// Users, by the relay's forwarding.
        case forwarding
        /// Rows of each log, by outcome or reason.
        case grantLog = "grant_log", revocationLog = "revocation_log", notificationLog = "notification_log", quarantine =
            "notification_quarantine"
        case queue
    }

    private var counts: [Subject: [String: Int]] = [:]

    package init(of backend: Backend) async throws {
        let rows = try await backend.rows(
            """
            SELECT 'state'      AS subject, reason AS name,   COUNT(*) AS count FROM user_state GROUP BY reason
            UNION ALL
            SELECT 'forwarding',            email_forwarding, COUNT(*) FROM user_state
             WHERE email_forwarding IS NOT NULL GROUP BY email_forwarding
            UNION ALL
            SELECT 'grant_log',             outcome,          COUNT(*) FROM grant_log               GROUP BY outcome
            UNION ALL
            SELECT 'notification_log',      outcome,          COUNT(*) FROM notification_log        GROUP BY outcome
            UNION ALL
            SELECT 'notification_quarantine', reason,         COUNT(*) FROM notification_quarantine GROUP BY reason
            UNION ALL
            SELECT 'queue',                 'grants',         COUNT(*) FROM grant_queue
            UNION ALL
            SELECT 'revocation_log',        outcome,          COUNT(*) FROM revocation_log          GROUP BY outcome
            UNION ALL
            SELECT 'queue',                 'revocations',    COUNT(*) FROM revocation_queue
            UNION ALL
            SELECT 'queue',                 'notifications',  COUNT(*) FROM notification_queue
            """
        )
        for row in rows {
            guard let subject = Subject(rawValue: row["subject"]) else { continue }
            counts[subject, default: [:]][row["name"]] = row["count"]
        }
    }

    package subscript(subject: Subject, name: String) -> Int { counts[subject]?[name] ?? 0 }

    subscript(subject: Subject) -> [String: Int] { counts[subject] ?? [:] }

    package func total(_ subject: Subject) -> Int { self[subject].values.reduce(0, +) }
}
