// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Reads the tables after each step and compares them with the model.
struct Inspector {
    private var lastChange: Int64 = 0
    /// The version of the database at the last look.
    private var version: Int?
    var lastGrantLogged: Int64 = 0
    var lastReceipt: Int64 = 0
    /// The state by the change log, replayed from its beginning. A follower knows no more.
    private var told: [CredentialID: Told] = [:]
    private var toldMail: [CredentialID: String] = [:]

    /// A state, as the change log or the view shows it.
    private struct Told: Equatable, CustomStringConvertible {
        var state: String
        var reason: String
        /// When it ended. The log reports no newer sign-in, because the backend knows it. So the view may show another time than the log.
        var endedAt: Int64?

        init(_ state: String, _ reason: String, at time: Int64?) {
            (self.state, self.reason) = (state, reason)
            endedAt = state == "authorized" ? nil : time
        }

        var description: String { "\(state) \(reason) at \(endedAt ?? 0)" }
    }

    /// The database was replaced by another, so look at all of it again.
    mutating func lookAgain() { version = nil }

    /// An undo has taken these credentials, and tells nobody.
    mutating func forget(_ credentials: Set<CredentialID>) {
        for credential in credentials { (told[credential], toldMail[credential]) = (nil, nil) }
    }

    mutating func inspect(_ database: any SimulatedDatabase, _ state: inout SimulatedWorld.State) throws -> Violation? {
        let version = try database.version
        guard version != self.version else { return nil }
        self.version = version
        if let violation = try nothingIsLost(database, state) ?? noRequestIsLost(database, state) { return violation }
        if let violation = try grantLogIsRight(database, state) ?? receiptsAreRight(database, state) { return violation }
        if let violation = try changesAreOnce(database, &state) ?? feedIsTheView(database, state) { return violation }
        let touched = state.model.touched
        (state.model.touched, state.model.authorizedSince) = ([], [:])
        for user in touched.sorted() {
            if let violation = try rowsFollow(database, of: user, state) { return violation }
        }
        return try countsAreRight(database, state) ?? nothingIsStuck(database, state)
    }

    /// I2, I5 and I12: the log has each change once, after the one before. None ends a good sign-in. A sign-in has the time of the view.
    private mutating func changesAreOnce(_ database: any SimulatedDatabase, _ state: inout SimulatedWorld.State) throws -> Violation? {
        let rows = try database.rows(
            """
            SELECT id, client_id, user_id, kind, from_state, to_state, reason, occurred_at, email, email_forwarding
              FROM credential_change WHERE id > ? ORDER BY id
            """,
            [lastChange]
        )
        for row in rows {
            lastChange = row[0]
            let credential = CredentialID(clientID: row[1], userID: row[2])
            guard row[3] == "state" else {
                let mail = "\(row[8] ?? "-") \(row[9] ?? "-")"
                if toldMail[credential] == mail { return Violation(.effectsAreOnce, "\(credential.name): the same e-mail told twice") }
                toldMail[credential] = mail
                continue
            }
            let (from, to, reason): (String?, String, String) = (row[4], row[5], row[6])
            let (last, new) = (told[credential], Told(to, reason, at: row[7]))
            if from == last?.state, new == last, state.model.shownAgain.remove(credential) != nil { continue }
            if from != last?.state || new == last {
                return Violation(.effectsAreOnce, "\(credential.name): told \(from ?? "-") → \(new) after \(last.map { "\($0)" } ?? "-")")
            }
            told[credential] = new
            let occurredAt = Timestamp(milliseconds: row[7])
            if to == "authorized", !state.model.authorizedSince[credential, default: []].contains(occurredAt.milliseconds) {
                let text = "\(credential.name) is told authorized as of \(occurredAt.milliseconds), and the view did not say so"
                return Violation(.newsArrives, text)
            }
            // Apple may still honour a credential that the app has revoked, if siwatch holds another token or none.
            if to != "authorized", reason != "revoked_by_app", !state.misdated.contains(credential.userID),
                let signIn = goodSignIn(of: credential, before: occurredAt, state.apple)
            {
                let text = """
                    \(credential.name) is told \(reason) as of \(occurredAt.milliseconds) \
                    and has been signed in since \(signIn.at.milliseconds)
                    """
                return Violation(.noFalseRevocation, text)
            }
        }
        // A follower that heard of the end kept the session, because the import's sign-in stood beside it.
        guard let hidden = state.model.shownAgain.min(by: { $0.name < $1.name }) else { return nil }
        return Violation(.newsArrives, "an import had hidden the end of \(hidden.name), and its undo does not tell the end again")
    }

    /// I12: the change log, replayed, is the view. Of thousands of users it compares only those whose rows may have changed.
    private func feedIsTheView(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let query = "SELECT client_id, user_id, state, reason, changed_at FROM credential_state WHERE reason <> 'never_granted'"
        let isSmall = state.model.facts.count <= 100
        let rows =
            try isSmall ? database.rows(query) : state.model.touched.flatMap { try database.rows("\(query) AND user_id = ?", [$0]) }
        for row in rows {
            let credential = CredentialID(clientID: row[0], userID: row[1])
            let (shown, told) = (Told(row[2], row[3], at: row[4]), told[credential])
            if shown != told { return Violation(.newsArrives, "\(credential.name) is \(shown), told \(told.map { "\($0)" } ?? "nothing")") }
        }
        guard isSmall, rows.count != told.count else { return nil }
        return Violation(.newsArrives, "\(told.count) credentials were told of, and \(rows.count) are there")
    }

    /// A sign-in that Apple still honours and that a revocation as of `time` would end, whether or not siwatch could know of it.
    private func goodSignIn(of credential: CredentialID, before time: Timestamp, _ apple: ScriptedApple) -> ScriptedApple.SignIn? {
        guard let signIn = apple.newestSignIn(of: credential), signIn.endedAt == nil, signIn.at < time else { return nil }
        return signIn
    }

    /// I3: the tables are what the rules derive from the facts.
    private func rowsFollow(_ database: any SimulatedDatabase, of user: String, _ state: SimulatedWorld.State) throws -> Violation? {
        let rows = try database.rows(
            """
            SELECT s.client_id, s.state, s.reason, s.changed_at, s.verified_at, c.rejected_at, c.sealed_token IS NOT NULL,
                   c.due_at IS NOT NULL, s.email, s.email_forwarding, c.never_accepted, c.former_sealed IS NOT NULL, c.verified_team
              FROM credential c
              JOIN client k ON k.id = c.client
              JOIN credential_state s ON s.user_id = c.user_id AND s.client_id = k.client_id
             WHERE c.user_id = ?
            """,
            [user]
        )
        for row in rows {
            let credential = CredentialID(clientID: row[0], userID: user)
            let found = ReferenceModel.Row(
                state: row[1],
                reason: row[2],
                changedAt: row[3],
                verifiedAt: row[4],
                rejectedAt: row[5],
                holdsToken: row[6],
                holdsFormerToken: row[11],
                isScheduled: row[7],
                email: row[8],
                forwarding: row[9],
                neverAccepted: row[10],
                verifiedTeam: row[12]
            )
            let expected = state.model.row(of: credential)
            if found != expected { return Violation(.stateFollowsFromFacts, credential.name, is: found, not: expected) }
        }
        let known = state.model.credentials(of: user).count
        return rows.count == known ? nil : Violation(.stateFollowsFromFacts, "\(user) has \(rows.count) credentials, by the rules \(known)")
    }

    /// The counts by app match the rows, but for the million users that the simulation plants. In a disaster with thousands of users it
    /// leaves out the counts by state.
    private func countsAreRight(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let wrong = try database.rows(
            """
            SELECT name FROM app
             WHERE (pending, never_accepted, unverified, foreign_tokens)
                   <> (SELECT COUNT(pending_since), COUNT(*) FILTER (WHERE never_accepted), COUNT(*) FILTER (WHERE unverified),
                              COUNT(*) FILTER (WHERE answer = 'another_user')
                         FROM credential WHERE app = app.id)
                OR (ended, unproven)
                   <> (SELECT COUNT(*) FILTER (WHERE c.granted_at IS NOT NULL),
                              COUNT(*) FILTER (WHERE c.state = 'authorized'
                                                 AND (c.granted_at > COALESCE(c.token_granted_at, 0) AND c.granted_at > COALESCE(c.verified_at, 0)
                                                      OR c.rejected_at IS NOT NULL AND c.verified_at IS NULL))
                         FROM credential c JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app
                        WHERE c.app = app.id AND COALESCE(u.consent_revoked_at, u.deleted_at) IS NOT NULL)
            """
        ).first.map { $0[0] as String }
        if let wrong { return Violation(.stateFollowsFromFacts, "what is counted of \(wrong) is not what its rows say") }
        guard state.model.facts.count <= 100 else { return nil }
        let states = try database.rows(
            """
            SELECT name FROM app
             WHERE EXISTS (SELECT 1 FROM credential_count n
                            WHERE n.app = app.id
                              AND n.count % 1000000 <> (SELECT COUNT(*) FROM credential c WHERE c.app = n.app AND c.state = n.state))
                OR (SELECT COUNT(*) FROM credential c WHERE c.app = app.id)
                   <> (SELECT COALESCE(SUM(n.count % 1000000), 0) FROM credential_count n WHERE n.app = app.id)
            """
        ).first.map { $0[0] as String }
        return states.map { Violation(.stateFollowsFromFacts, "the states that are counted of \($0) are not those of its rows") }
    }

    /// I6: claimed rows become due again, and every token has a due check.
    private func nothingIsStuck(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        // The next claim brings back due times from before the clock was set back.
        let now = max(state.now, state.latestNow)
        let furthest = now.advanced(by: SimulatedProcess.policy.interval * 1.06)
        // With a clock that is days ahead, siwatch takes a present sign-in for an import.
        let isNew = state.latestNow == .earliest ? now.advanced(by: .seconds(-43_200)) : Timestamp.legal.upperBound
        let stuck = try database.rows(
            """
            SELECT 'credential ' || user_id FROM credential WHERE app IN (SELECT id FROM app) AND due_at > ?1
             UNION ALL SELECT 'notification ' || id FROM notification_queue WHERE due_at > ?2
             UNION ALL SELECT 'grant ' || id FROM grant_queue WHERE due_at > ?3
             UNION ALL SELECT 'the first check of ' || user_id FROM credential
                        WHERE first_check = 0 AND claimed_by IS NULL AND due_at > ?4 AND token_granted_at > ?5
             UNION ALL SELECT 'code ' || id FROM grant_queue WHERE authorization_code IS NOT NULL AND due_at > ?6
             UNION ALL SELECT 'request ' || id || ' to revoke' FROM revocation_queue WHERE opened_at IS NULL AND due_at > ?8
             UNION ALL SELECT 'the revocation of ' || user_id FROM revocation WHERE due_at > ?7
             UNION ALL SELECT 'the rejection of ' || user_id FROM credential WHERE pending_since IS NOT NULL AND due_at IS NULL
            """,
            [
                furthest.milliseconds, now.advanced(by: .seconds(900)).milliseconds, now.advanced(by: .seconds(21_600)).milliseconds,
                now.advanced(by: .seconds(600)).milliseconds, isNew.milliseconds, now.advanced(by: .seconds(300)).milliseconds,
                now.advanced(by: .seconds(7_200)).milliseconds, now.advanced(by: .seconds(4_500)).milliseconds,
            ]
        ).first.map { $0[0] as String }
        return stuck.map { Violation(.nothingIsStuck, "\($0) is due too far ahead, or never") }
    }
}

extension CredentialID {
    var name: String { "\(userID) at \(clientID)" }
}
