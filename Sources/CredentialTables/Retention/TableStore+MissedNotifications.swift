// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func countMissedNotifications(at now: Timestamp) async throws -> [String: Int] {
        let before = now.advanced(by: .zero - SettlementRules.longestWaitForNotification)
        var missed: [String: Int] = [:]
        while true {
            let (rows, counts) = try await transaction { [portion] connection in
                // A waiting row may be the missing notification. After a stop of siwatch, counting now would be too soon.
                let isOldest = "id = (SELECT MIN(id) FROM notification_queue)"
                let oldest = try connection.fetchOne("SELECT received_at FROM notification_queue WHERE \(sql: isOldest)")?.time(at: 0)
                let soonest = oldest?.advanced(by: .zero - SettlementRules.longestWaitForNotification)
                return try connection.countMissedNotifications(admittedBefore: min(before, soonest ?? before), upTo: portion)
            }
            missed.merge(counts) { $0 + $1 }
            // The counts so far are committed. After a cancellation, the next call counts the rest.
            if rows < portion || Task.isCancelled { return missed }
        }
    }
}

extension TableConnection {
    /// An event for this sign-in explains a rejection, whenever the event came. A rejection that Apple took back needs no explanation.
    fileprivate func countMissedNotifications(admittedBefore time: Timestamp, upTo limit: Int) throws -> (rows: Int, [String: Int]) {
        // The second of two replicas waits here, and then does not find the rows of the first.
        try lockSettlements()
        let rows = try fetchAll(
            """
            SELECT a.id, app.id, app.name,
                   EXISTS (SELECT 1 FROM user_event e
                            WHERE e.user_id = a.user_id AND e.app = a.app
                              AND (e.consent_revoked_at >= a.granted_at OR e.deleted_at >= a.granted_at)),
                   EXISTS (SELECT 1 FROM credential c
                            WHERE c.user_id = a.user_id AND c.client = a.client AND c.token_granted_at = a.granted_at
                              AND c.verified_at >= a.rejected_at)
              FROM admitted_rejection a JOIN app ON app.id = a.app
             WHERE a.admitted_at <= \(time) ORDER BY a.admitted_at LIMIT \(sql: limit)
            """
        )
        var missed: [String: Int] = [:]
        for row in rows {
            let (app, isNotified, isTakenBack) = (row.integer(at: 1), row.bool(at: 3), row.bool(at: 4))
            try execute("DELETE FROM admitted_rejection WHERE id = \(row.integer(at: 0))")
            if isTakenBack { continue }
            try execute("UPDATE app SET admitted = admitted + 1, missed = missed + \(isNotified ? 0 : 1) WHERE id = \(app)")
            if !isNotified { missed[row.text(at: 2) ?? "", default: 0] += 1 }
        }
        return (rows.count, missed)
    }
}
