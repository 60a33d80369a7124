// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

extension Inspector {
    /// I1: each request to revoke waits, with its tokens, or has its receipt.
    func noRequestIsLost(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let row = try database.rows(
            """
            SELECT (SELECT COUNT(*) FROM revocation_queue), (SELECT COUNT(*) FROM revocation),
                   (SELECT COUNT(DISTINCT request) FROM revocation_log WHERE request NOT IN (SELECT id FROM revocation_queue)),
                   (SELECT COUNT(*) FROM revocation_queue WHERE held_at IS NOT NULL), (SELECT CAST(SUM(revocations_held) AS BIGINT) FROM app)
            """
        )[0]
        let (waiting, open, answered): (Int, Int, Int) = (row[0], row[1], row[2])
        let model = state.model
        let (held, counted): (Int, Int) = (row[3], row[4])
        let expected = model.requestRows.values.count(where: \.isHeld)
        guard held == expected, counted == expected else {
            return Violation(.nothingIsLost, "\(held) requests to revoke wait for an operator, \(counted) by count, \(expected) should")
        }
        if waiting == model.requestRows.count, open == model.revocations.count, waiting + answered == model.requestsIn { return nil }
        let text = """
            requests to revoke: \(model.requestsIn) came, \(answered) answered, \(waiting) wait, \(model.requestRows.count) should, \
            with \(open) tokens, \(model.revocations.count) should
            """
        return Violation(.nothingIsLost, text)
    }

    /// I3: the log has the true outcome of each sign-in.
    mutating func grantLogIsRight(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let query = "SELECT id, grant_id, outcome, COALESCE(reason, '') FROM grant_log WHERE id > ? ORDER BY id"
        for row in try database.rows(query, [lastGrantLogged]) {
            lastGrantLogged = row[0]
            let (number, found): (Int64, [String]) = (row[1], [row[2], row[3]])
            let expected = state.model.toldRows[number]?.logged ?? ["nothing"]
            if found != expected { return Violation(.stateFollowsFromFacts, "a sign-in is logged as \(found), by the rules \(expected)") }
        }
        return nil
    }

    /// I3: each receipt has Apple's answers.
    mutating func receiptsAreRight(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let rows = try database.rows(
            """
            SELECT id, request, client_id, outcome, COALESCE(reason, ''), COALESCE(before_answer, ''), COALESCE(revoke_answer, ''),
                   COALESCE(after_answer, '')
              FROM revocation_log WHERE id > ? ORDER BY id
            """,
            [lastReceipt]
        )
        for row in rows {
            lastReceipt = row[0]
            let place = Int(lastReceipt) - 1
            let answers: [String] = [row[5], row[6], row[7]]
            let found = ReferenceModel.Receipt(request: row[1], clientID: row[2], outcome: row[3], reason: row[4], answers: answers)
            let expected = state.model.receipts.indices.contains(place) ? state.model.receipts[place] : nil
            if found != expected { return Violation(.stateFollowsFromFacts, "a receipt", is: found, not: expected) }
        }
        return nil
    }

    // MARK: The end

    /// Each request has its receipt, with two exceptions. Nothing may be known at a client that Apple refuses. A token that was dead from
    /// the first may never count as dead if Apple accepts no token of its client any more. The answer takes up to two intervals from the
    /// first question. A request that waits for another one of the same credential begins late.
    ///
    /// - Parameter good: clients at which Apple accepts a user's token.
    func everyRequestIsAnswered(_ state: SimulatedWorld.State, _ good: Set<String>) -> Violation? {
        let model = state.model
        let latest = state.now.advanced(by: .zero - SimulatedProcess.policy.longestInterval * 2 - BreakerRules().settle)
        let unopened = model.requestRows.filter { request in !model.revocations.keys.contains { $0.request == request.key } }
        let open = model.revocations.filter { $0.key.clientID != state.apple.refused }.values.filter { open in
            open.before != .rejected && !open.isAskedAnew || good.contains(open.credential.clientID) && open.openedAt <= latest
        }
        // A second request for the same credential waits for the first.
        let isStuck = unopened.contains { request in
            !model.revocations.values.contains { $0.credential.userID == request.value.credential.userID }
        }
        if !isStuck, open.isEmpty { return nil }
        return Violation(.nothingIsStuck, "\(unopened.count) requests to revoke wait, and \(open.count) tokens")
    }

    /// A violation, if the user has signed in since the revocation, or Apple still accepts the revoked token.
    func isRevoked(
        _ credential: CredentialID,
        _ row: ReferenceModel.Row,
        _ signIn: ScriptedApple.SignIn,
        _ state: SimulatedWorld.State
    ) -> Violation? {
        // Where our clock is wrong, only the second is known.
        if let revokedAt = row.changedAt, revokedAt < signIn.at.second.milliseconds, !state.model.poisoned.contains(credential) {
            return Violation(.noFalseRevocation, "\(credential.name) has signed in again, and ends as revoked by the app")
        }
        guard let text = state.model.tokenText(of: credential), state.apple.isAlive(text, at: credential),
            !state.ledger.proofs.belied.contains(text), let token = state.model.facts[credential]!.token
        else { return nil }
        if state.model.facts[credential]!.revokedTokens.contains(token) {
            return Violation(.noFalseRevocation, "\(credential.name) ends as revoked by the app, and Apple still accepts the token")
        }
        // The sign-in was told after another of the user, which its revocation could have ended.
        if state.model.hasSignedIn(credential, after: row.changedAt.map(Timestamp.init(milliseconds:)) ?? .earliest) { return nil }
        let isAnswered = state.model.facts[credential]!.answeredTokens.contains(token)
        if isAnswered || state.model.revocations.values.contains(where: { $0.credential == credential && $0.token == token }) { return nil }
        return Violation(.nothingIsLost, "\(credential.name) ends as revoked by the app, and its token lives that nobody has asked about")
    }
}
