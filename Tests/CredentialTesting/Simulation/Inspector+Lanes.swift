// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Codes and revocations.
extension Inspector {
    /// I1: each request to revoke waits or has its receipt, and its tokens wait with it.
    func noRequestIsLost(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let row = try database.rows(
            """
            SELECT (SELECT COUNT(*) FROM revocation_queue), (SELECT COUNT(*) FROM revocation),
                   (SELECT COUNT(DISTINCT request) FROM revocation_log WHERE request NOT IN (SELECT id FROM revocation_queue))
            """
        )[0]
        let (waiting, open, answered): (Int, Int, Int) = (row[0], row[1], row[2])
        let model = state.model
        if waiting == model.requestRows.count, open == model.revocations.count, waiting + answered == model.requestsIn { return nil }
        return Violation(
            .nothingIsLost,
            """
            requests to revoke: \(model.requestsIn) came, \(answered) answered, \(waiting) wait, \(model.requestRows.count) should, \
            with \(open) tokens, \(model.revocations.count) should
            """
        )
    }

    /// I3: what became of each sign-in is written down as it was.
    mutating func grantLogIsRight(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let rows = try database.rows("SELECT id, outcome, COALESCE(reason, '') FROM grant_log WHERE id > ? ORDER BY id", [lastGrantLogged])
        for row in rows {
            lastGrantLogged = row[0]
            let (place, found): (Int, [String]) = (Int(lastGrantLogged) - 1, [row[1], row[2]])
            let expected = state.model.grantsLogged.indices.contains(place) ? state.model.grantsLogged[place] : ["nothing"]
            if found != expected { return Violation(.stateFollowsFromFacts, "a sign-in is logged as \(found), by the rules \(expected)") }
        }
        return nil
    }

    /// I3: each receipt says what Apple said.
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
            let found = ReferenceModel.Receipt(
                request: row[1],
                clientID: row[2],
                outcome: row[3],
                reason: row[4],
                answers: [row[5], row[6], row[7]]
            )
            let expected = state.model.receipts.indices.contains(place) ? state.model.receipts[place] : nil
            if found != expected {
                return Violation(
                    .stateFollowsFromFacts,
                    "a receipt is\n  \(found), by the rules\n  \(expected.map { "\($0)" } ?? "nothing")"
                )
            }
        }
        return nil
    }

    // MARK: The end

    /// Only that a token was dead from the first may never be known, where Apple accepts nobody of its client any more, and nothing at all
    /// of a client that Apple refuses. It takes up to two intervals from when it is first asked: who asks for the same again, and waits for
    /// that, begins late.
    ///
    /// - Parameter good: clients of which Apple accepts somebody.
    func everyRequestIsAnswered(_ state: SimulatedWorld.State, _ good: Set<String>) -> Violation? {
        let model = state.model
        let latest = state.now.advanced(by: .zero - SimulatedProcess.policy.longestInterval * 2 - BreakerRules().settle)
        let unopened = model.requestRows.filter { request in !model.revocations.keys.contains { $0.request == request.key } }
        let open = model.revocations.filter { $0.key.clientID != state.apple.refused }.values.filter { open in
            open.before != .rejected && !open.isAskedAnew || good.contains(open.credential.clientID) && open.openedAt <= latest
        }
        // One that asks for the same waits for it.
        let isStuck = unopened.contains { request in
            !model.revocations.values.contains { $0.credential.userID == request.value.credential.userID }
        }
        if !isStuck, open.isEmpty { return nil }
        return Violation(.nothingIsStuck, "\(unopened.count) requests to revoke wait, and \(open.count) tokens")
    }

    /// Nobody is revoked by the app whose token Apple still accepts, or who has signed in since.
    func isRevoked(
        _ credential: CredentialID,
        _ row: ReferenceModel.Row,
        _ signIn: ScriptedApple.SignIn,
        _ state: SimulatedWorld.State
    ) -> Violation? {
        if let revokedAt = row.changedAt, revokedAt < signIn.at.milliseconds, !state.model.poisoned.contains(credential) {
            return Violation(.noFalseRevocation, "\(credential.name) has signed in again, and ends as revoked by the app")
        }
        guard let text = state.model.tokenText(of: credential), state.apple.isAlive(text, at: credential),
            !state.ledger.proofs.belied.contains(text), state.model.facts[credential]!.wasHeldWhenRevoked
        else { return nil }
        return Violation(.noFalseRevocation, "\(credential.name) ends as revoked by the app, and Apple still accepts the token")
    }
}

extension ReferenceModel.Facts {
    /// A token may be told after the proof, of a sign-in before it.
    fileprivate var wasHeldWhenRevoked: Bool { token.map { revokedTokens.contains($0) } ?? false }
}
