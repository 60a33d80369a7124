// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import GRDB

/// Reads the tables after each step and compares them with what must be true.
struct Inspector {
    private var lastChange: Int64 = 0
    /// Of the database that was looked at last.
    private var version: Int?
    var lastGrantLogged: Int64 = 0
    var lastReceipt: Int64 = 0
    /// What the change log comes to, from its beginning: a follower knows no more.
    private var told: [CredentialID: Told] = [:]
    private var toldMail: [CredentialID: String] = [:]

    /// A state as the change log tells it, and as the view shows it.
    private struct Told: Equatable, CustomStringConvertible {
        var state: String
        var reason: String
        /// When it ended. Nobody is told of a newer sign-in but by its own backend: the view may show another time than was told.
        var endedAt: Int64?

        init(_ state: String, _ reason: String, at time: Int64?) {
            self.state = state
            self.reason = reason
            endedAt = state == "authorized" ? nil : time
        }

        var description: String { "\(state) \(reason) at \(endedAt ?? 0)" }
    }

    /// Another database stands in the place of the one that was looked at.
    mutating func lookAgain() {
        version = nil
    }

    /// - Returns: the first thing that is wrong.
    mutating func inspect(_ database: any SimulatedDatabase, _ state: inout SimulatedWorld.State) throws -> Violation? {
        let version = try database.version
        guard version != self.version else { return nil }
        self.version = version
        if let violation = try nothingIsLost(database, state) ?? noRequestIsLost(database, state) { return violation }
        if let violation = try grantLogIsRight(database, state) ?? receiptsAreRight(database, state) { return violation }
        if let violation = try changesAreOnce(database, state) ?? feedIsTheView(database, state) { return violation }
        let touched = state.model.touched
        (state.model.touched, state.model.authorizedSince) = ([], [:])
        for user in touched.sorted() {
            if let violation = try rowsFollow(database, of: user, state) { return violation }
        }
        return try countsAreRight(database) ?? nothingIsStuck(database, state)
    }

    /// I1: in = logged + quarantined + waiting, and what waits is what was not settled.
    private func nothingIsLost(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let row = try database.rows(
            """
            SELECT (SELECT COUNT(*) FROM notification_queue), (SELECT COUNT(*) FROM notification_log),
                   (SELECT COUNT(*) FROM notification_quarantine),
                   (SELECT COUNT(*) FROM grant_queue), (SELECT COUNT(*) FROM grant_log)
            """
        )[0]
        let (waiting, logged, quarantined, grants, grantsLogged): (Int, Int, Int, Int, Int) = (row[0], row[1], row[2], row[3], row[4])
        if waiting != state.model.notificationRows.count || waiting + logged + quarantined != state.model.notificationsIn {
            return Violation(
                .nothingIsLost,
                """
                notifications: \(state.model.notificationsIn) came, \(logged) logged, \(quarantined) quarantined, \(waiting) wait, \
                \(state.model.notificationRows.count) should
                """
            )
        }
        if grants != state.model.grantRows.count || grants + grantsLogged != state.model.grantsIn {
            return Violation(
                .nothingIsLost,
                "grants: \(state.model.grantsIn) came, \(grantsLogged) logged, \(grants) wait, \(state.model.grantRows.count) should"
            )
        }
        return nil
    }

    /// I2, I5 and I12: each change is told once, one follows from the other, none ends a sign-in that is good, and a sign-in is told with
    /// the time that the view showed then.
    private mutating func changesAreOnce(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
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
            if from != last?.state || new == last {
                return Violation(.effectsAreOnce, "\(credential.name): told \(from ?? "-") → \(new) after \(last.map { "\($0)" } ?? "-")")
            }
            told[credential] = new
            let occurredAt = Timestamp(milliseconds: row[7])
            if to == "authorized", !state.model.authorizedSince[credential, default: []].contains(occurredAt.milliseconds) {
                let text = "\(credential.name) is told authorized as of \(occurredAt.milliseconds), and the view did not say so"
                return Violation(.newsArrives, text)
            }
            // What the app has revoked Apple may still honour where the daemon holds another token, or none.
            if to != "authorized", reason != "revoked_by_app", !state.misdated.contains(credential.userID),
                let signIn = goodSignIn(of: credential, before: occurredAt, state.apple)
            {
                return Violation(
                    .noFalseRevocation,
                    """
                    \(credential.name) is told \(reason) as of \(occurredAt.milliseconds) \
                    and has been signed in since \(signIn.at.milliseconds)
                    """
                )
            }
        }
        return nil
    }

    /// I12: the change log, replayed from its beginning, is the view. In a disaster of thousands only those are looked at whose rows may
    /// have changed.
    private func feedIsTheView(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let query = "SELECT client_id, user_id, state, reason, changed_at FROM credential_state WHERE reason <> 'never_granted'"
        let isSmall = state.model.facts.count <= 100
        let rows =
            try isSmall
            ? database.rows(query) : state.model.touched.flatMap { try database.rows("\(query) AND user_id = ?", [$0]) }
        for row in rows {
            let credential = CredentialID(clientID: row[0], userID: row[1])
            let (shown, told) = (Told(row[2], row[3], at: row[4]), told[credential])
            if shown != told {
                return Violation(.newsArrives, "\(credential.name) is \(shown), told \(told.map { "\($0)" } ?? "nothing")")
            }
        }
        guard isSmall, rows.count != told.count else { return nil }
        return Violation(.newsArrives, "\(told.count) credentials were told of, and \(rows.count) are there")
    }

    /// A sign-in that Apple still honours and that a revocation as of `time` would end, whether or not the daemon could know of it.
    private func goodSignIn(of credential: CredentialID, before time: Timestamp, _ apple: ScriptedApple) -> ScriptedApple.SignIn? {
        guard let signIn = apple.newestSignIn(of: credential), signIn.endedAt == nil, signIn.at < time else { return nil }
        return signIn
    }

    /// I3: the tables are what the rules say of the facts.
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
        var seen = 0
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
            if found != expected {
                return Violation(
                    .stateFollowsFromFacts,
                    "\(credential.clientID) \(user) is\n  \(found), by the rules\n  \(expected.map { "\($0)" } ?? "nothing")"
                )
            }
            seen += 1
        }
        let known = state.model.credentials(of: user).count
        return seen == known ? nil : Violation(.stateFollowsFromFacts, "\(user) has \(seen) credentials, by the rules \(known)")
    }

    /// What is counted by app is what the rows say.
    private func countsAreRight(_ database: any SimulatedDatabase) throws -> Violation? {
        let wrong = try database.rows(
            """
            SELECT name FROM app
             WHERE (pending, never_accepted, unverified, foreign_tokens)
                   <> (SELECT COUNT(pending_since), COUNT(*) FILTER (WHERE never_accepted), COUNT(*) FILTER (WHERE unverified),
                              COUNT(*) FILTER (WHERE answer = 'another_user')
                         FROM credential WHERE app = app.id)
            """
        ).first.map { $0[0] as String }
        return wrong.map { Violation(.stateFollowsFromFacts, "what is counted of \($0) is not what its rows say") }
    }

    /// I6: what is claimed becomes due again, and what has a token is asked about.
    private func nothingIsStuck(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        // Due times of before the clock was set back are brought back by the next claim.
        let now = max(state.now, state.latestNow)
        let furthest = now.advanced(by: SimulatedProcess.policy.interval * 1.06)
        // To a clock that is days ahead, a sign-in of now is an import.
        let isNew = state.latestNow == .earliest ? now.advanced(by: .seconds(-43_200)) : Timestamp.legal.upperBound
        let stuck = try database.rows(
            """
            SELECT 'credential ' || user_id FROM credential WHERE app IN (SELECT id FROM app) AND due_at > ?1
             UNION ALL SELECT 'notification ' || id FROM notification_queue WHERE due_at > ?2
             UNION ALL SELECT 'grant ' || id FROM grant_queue WHERE due_at > ?3
             UNION ALL SELECT 'the first check of ' || user_id FROM credential
                        WHERE first_check = 0 AND claimed_by IS NULL AND due_at > ?4 AND token_granted_at > ?5
             UNION ALL SELECT 'code ' || id FROM grant_queue WHERE authorization_code IS NOT NULL AND due_at > ?6
             UNION ALL SELECT 'request ' || id || ' to revoke' FROM revocation_queue WHERE opened_at IS NULL AND due_at > ?2
             UNION ALL SELECT 'the revocation of ' || user_id FROM revocation WHERE due_at > ?7
             UNION ALL SELECT 'the rejection of ' || user_id FROM credential WHERE pending_since IS NOT NULL AND due_at IS NULL
            """,
            [
                furthest.milliseconds, now.advanced(by: .seconds(900)).milliseconds, now.advanced(by: .seconds(21_600)).milliseconds,
                now.advanced(by: .seconds(600)).milliseconds, isNew.milliseconds, now.advanced(by: .seconds(300)).milliseconds,
                now.advanced(by: .seconds(7_200)).milliseconds,
            ]
        ).first.map { $0[0] as String }
        return stuck.map { Violation(.nothingIsStuck, "\($0) is due too far ahead, or never") }
    }

    // MARK: The end

    /// After the calm: nothing waits, and what is true is known.
    func inspectEnd(_ state: SimulatedWorld.State, isTouchy: Bool) -> Violation? {
        if !state.model.notificationRows.isEmpty || !state.model.grantRows.isEmpty {
            let (notifications, grants) = (state.model.notificationRows.count, state.model.grantRows.count)
            return Violation(.nothingIsStuck, "\(notifications) notifications and \(grants) grants still wait")
        }
        let good = state.goodClients
        if let violation = everyRequestIsAnswered(state, isTouchy ? [] : good) { return violation }
        for credential in state.model.credentials.sorted(by: { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }) {
            if let violation = isKnown(credential, state, isTouchy ? [] : good) { return violation }
        }
        return nil
    }

    private func isKnown(_ credential: CredentialID, _ state: SimulatedWorld.State, _ good: Set<String>) -> Violation? {
        guard let row = state.model.row(of: credential), let signIn = state.apple.newestSignIn(of: credential),
            state.model.inserted[credential, default: []].contains(signIn.at), !state.misdated.contains(credential.userID)
        else { return nil }
        if row.reason == "revoked_by_app" { return isRevoked(credential, row, signIn, state) }
        if signIn.endedAt == nil, row.state != "authorized", !state.model.poisoned.contains(credential) {
            return Violation(.noFalseRevocation, "\(credential.name) is signed in, and ends as \(row.state) \(row.reason)")
        }
        // Nobody can be asked about without a token of this sign-in, or one that Apple has accepted since. One that was told again with
        // this sign-in, and is rejected before Apple has accepted it anew, may have ended before it. Without anybody's 200 no rejection is
        // believed, and none that Apple gives to another team than the one it has accepted the token from.
        let isOfSignIn = state.model.tokenIsOfNewestSignIn(credential)
        // An older token is gone where a revocation or an event ended it, and the sign-in may have ended with it.
        let isOurs = isOfSignIn || row.holdsToken && row.verifiedAt.map { $0 >= signIn.at.milliseconds } ?? false
        if signIn.endedAt != nil, row.verifiedAt != nil, isOurs, row.state == "authorized", good.contains(credential.clientID),
            row.verifiedTeam == "TEAM\(state.apple.team(of: credential.clientID))"
        {
            return Violation(.nothingIsStuck, "\(credential.name) has left, and is still authorized after all this time")
        }
        return nil
    }
}

extension SimulatedWorld.State {
    /// The clients of which the daemon holds a token that Apple accepts. No other client can have a 200, nor can the one that Apple refuses
    /// for good. A blamed client holds back the rejections of another only until that other one has a 200.
    fileprivate var goodClients: Set<String> {
        let good = model.credentials.filter { credential in
            model.row(of: credential)?.holdsToken == true
                && credential.clientID != apple.refused
                && model.tokenText(of: credential).map { apple.isAccepted($0, at: credential) } ?? false
        }
        return Set(good.map(\.clientID))
    }
}

extension CredentialID {
    var name: String { "\(userID) at \(clientID)" }
}

extension Simulation {
    /// Compares, after each step.
    mutating func check() throws {
        var inspector = inspector
        let violation = try world.with { state in try inspector.inspect(database, &state) }
        self.inspector = inspector
        world.with { $0.report(violation ?? breakersAreRight($0)) }
    }

    /// Only what Apple says of tokens that it had accepted before opens a breaker for being out of proportion.
    private func breakersAreRight(_ state: SimulatedWorld.State) -> Violation? {
        for app in plan.apps where process.writer.breakers.breaker(of: app.name).causes.contains(.disproportion) {
            let rejections = state.model.rejectionsOfAccepted[app.name, default: 0]
            guard rejections <= plan.breaker.maxRejections else { continue }
            return Violation(.stateFollowsFromFacts, "the breaker of \(app.name) is open for \(rejections) tokens that Apple had accepted")
        }
        return nil
    }

    func checkEnd() {
        let violation = world.with { state in inspector.inspectEnd(state, isTouchy: plan.isTouchy) }
        world.with { $0.report(violation) }
    }
}
