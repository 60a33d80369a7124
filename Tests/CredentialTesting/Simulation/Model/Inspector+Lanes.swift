// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import GRDB

extension Inspector {
    /// I1: inserted = logged + quarantined + waiting, and the waiting rows are the unsettled ones.
    func nothingIsLost(_ database: any SimulatedDatabase, _ state: SimulatedWorld.State) throws -> Violation? {
        let row = try database.rows(
            """
            SELECT (SELECT COUNT(*) FROM notification_queue), (SELECT COUNT(*) FROM notification_log),
                   (SELECT COUNT(*) FROM notification_quarantine),
                   (SELECT COUNT(*) FROM grant_queue), (SELECT COUNT(*) FROM grant_log)
            """
        )[0]
        let (waiting, logged, quarantined, grants, grantsLogged): (Int, Int, Int, Int, Int) = (row[0], row[1], row[2], row[3], row[4])
        if waiting != state.model.notificationRows.count || waiting + logged + quarantined != state.model.notificationsIn {
            let text = """
                notifications: \(state.model.notificationsIn) came, \(logged) logged, \(quarantined) quarantined, \(waiting) wait, \
                \(state.model.notificationRows.count) should
                """
            return Violation(.nothingIsLost, text)
        }
        if grants != state.model.grantRows.count || grants + grantsLogged + state.model.rowsUndone != state.model.grantsIn {
            let text = """
                grants: \(state.model.grantsIn) came, \(grantsLogged) logged, \(state.model.rowsUndone) undone, \(grants) wait, \
                \(state.model.grantRows.count) should
                """
            return Violation(.nothingIsLost, text)
        }
        return nil
    }

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
        guard held == expected, counted == expected || !state.replayed.isEmpty else {
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
}
