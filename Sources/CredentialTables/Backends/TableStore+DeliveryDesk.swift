// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func delivery(_ name: String) async throws -> DeliveryPosition? { try await query { try $0.position(of: name) } }

    package func beginDelivery(_ name: String) async throws {
        try await transaction { connection in
            try connection.execute(
                """
                INSERT INTO delivery (name, cursor) VALUES (\(name), (SELECT COALESCE(MAX(id), 0) FROM credential_change))
                    ON CONFLICT DO NOTHING
                """
            )
        }
    }

    package func deliveryNames() async throws -> [String] {
        try await query { try $0.fetchAll("SELECT name FROM delivery ORDER BY name").compactMap { $0.text(at: 0) } }
    }

    package func renameDelivery(_ old: String, to new: String) async throws -> Bool {
        try await transaction { connection in
            guard let known = try connection.fetchOne("SELECT cursor, stopped_at FROM delivery WHERE name = \(old)") else { return false }
            // What the other one has sent meanwhile it sends again, with the same ids.
            try connection.execute(
                """
                INSERT INTO delivery (name, cursor, stopped_at) VALUES (\(new), \(known.integer(at: 0)), \(known.time(at: 1).columnValue))
                    ON CONFLICT (name) DO UPDATE
                       SET cursor = CASE WHEN delivery.cursor < excluded.cursor THEN delivery.cursor ELSE excluded.cursor END
                """
            )
            try connection.execute(
                """
                INSERT INTO delivery_retry (delivery, change_id, failures, due_at, failed_at, reason)
                SELECT \(new), change_id, failures, due_at, failed_at, reason FROM delivery_retry WHERE delivery = \(old)
                    ON CONFLICT (delivery, change_id) DO NOTHING
                """
            )
            try connection.forgetDelivery(old)
            return true
        }
    }

    package func forgetDelivery(_ name: String) async throws { try await transaction { try $0.forgetDelivery(name) } }

    package func advance(_ name: String, from old: Int64, to new: Int64, failed: [FailedChange], at now: Timestamp) async throws {
        try await transaction { connection in
            guard try connection.change("UPDATE delivery SET cursor = \(new) WHERE name = \(name) AND cursor = \(old)") == 1 else {
                return
            }
            try connection.execute(.keepStuck, failed.map { $0.row(of: name, at: now) })
        }
    }

    package func stuckChanges(of name: String, upTo limit: Int, at now: Timestamp) async throws -> [StuckChange] {
        try await query { connection in
            func changes(_ condition: String, _ time: Timestamp, upTo limit: Int) throws -> [StuckChange] {
                try connection.fetchAll(
                    """
                    SELECT r.failures, r.failed_at, \(sql: PublishedChange.columns)
                      FROM delivery_retry r JOIN credential_change c ON c.id = r.change_id
                     WHERE r.delivery = \(name) AND r.due_at \(sql: condition) \(time) ORDER BY r.due_at, r.change_id LIMIT \(limit)
                    """
                ).map { try StuckChange(change: PublishedChange(from: RowDecoder(row: $0)), failures: $0.count(at: 0), failedAt: $0[1]) }
            }
            let due = try changes("<=", now, upTo: limit)
            return try due + changes(">", StuckChange.furthest(at: now), upTo: limit - due.count)
        }
    }

    package func settle(_ name: String, delivered: [Int64], failed: [FailedChange], at now: Timestamp) async throws {
        guard !delivered.isEmpty || !failed.isEmpty else { return }
        try await transaction { connection in
            try connection.execute(.forgetStuck, delivered.map { bound(name, $0) })
            // Not if it went meanwhile.
            try connection.execute(.moveStuck, failed.map { $0.row(of: name, at: now) })
        }
    }

    package func stop(_ name: String, since time: Timestamp?) async throws {
        try await transaction { try $0.execute("UPDATE delivery SET stopped_at = \(time.columnValue) WHERE name = \(name)") }
    }

    package func replay(_ name: String, at now: Timestamp) async throws -> Int {
        try await transaction { try $0.change("UPDATE delivery_retry SET due_at = \(now), failures = 0 WHERE delivery = \(name)") }
    }

    package func dropDead(of name: String) async throws -> Int {
        try await transaction { try $0.change("DELETE FROM delivery_retry WHERE delivery = \(name) AND due_at IS NULL") }
    }

    package func forgetUndeliverable() async throws -> [String: Int] {
        try await transaction { connection in
            let gone = try connection.fetchAll(
                "DELETE FROM delivery_retry WHERE NOT EXISTS (SELECT 1 FROM credential_change c WHERE c.id = change_id) RETURNING delivery"
            )
            return gone.reduce(into: [:]) { $0[$1.text(at: 0) ?? "", default: 0] += 1 }
        }
    }
}

extension PublishedChange {
    static let columns = StoredTable.credentialChange.columnNames.map { "c.\($0)" }.joined(separator: ", ")
}

extension TableConnection {
    fileprivate func forgetDelivery(_ name: String) throws {
        try execute("DELETE FROM delivery_retry WHERE delivery = \(name)")
        try execute("DELETE FROM delivery WHERE name = \(name)")
    }

    /// Forgets that erased changes are to be sent.
    /// - Returns: how many of them were still to be sent at most, by delivery. Which of them it wants, the configuration says.
    func forgetWebhooks(of changes: some Collection<Int64>) throws -> [String: Int] {
        let isErased = try dialect.isOne("change_id", of: changes.sorted())
        var counts: [String: Int] = [:]
        for delivery in try fetchAll("SELECT name, cursor FROM delivery") {
            let name = delivery.text(at: 0) ?? ""
            let failed = try change("DELETE FROM delivery_retry WHERE delivery = \(name) AND \(isErased)")
            counts[name] = failed + changes.count { $0 > delivery.integer(at: 1) }
        }
        return counts.filter { $0.value > 0 }
    }

    fileprivate func position(of name: String) throws -> DeliveryPosition? {
        let stuck: SQL = "delivery_retry r WHERE r.delivery = \(name) AND r.due_at"
        let found: [DeliveryPosition] = try fetchValues(
            """
            SELECT cursor, stopped_at, (SELECT COALESCE(MAX(id), 0) FROM credential_change) AS newest,
                   (SELECT COUNT(*) FROM \(stuck) IS NOT NULL) AS waiting, (SELECT COUNT(*) FROM \(stuck) IS NULL) AS dead,
                   (SELECT c.recorded_at FROM delivery_retry r JOIN credential_change c ON c.id = r.change_id
                     WHERE r.delivery = \(name) AND r.due_at IS NOT NULL ORDER BY r.change_id LIMIT 1) AS oldest_waiting
              FROM delivery WHERE name = \(name)
            """
        )
        return found.first
    }
}

extension FailedChange {
    fileprivate func row(of delivery: String, at now: Timestamp) -> [ColumnValue] {
        bound(delivery, id, failures, dueAt, now, reason)
    }
}

extension RowStatement {
    private static let key = ["delivery", "change_id"]
    private static let columns = ["failures", "due_at", "failed_at", "reason"]
    fileprivate static let keepStuck = insert(
        into: "delivery_retry",
        key + columns,
        orElse: "ON CONFLICT (delivery, change_id) DO UPDATE SET \(columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))"
    )
    fileprivate static let moveStuck = update("delivery_retry", key: key, columns)
    fileprivate static let forgetStuck = delete(from: "delivery_retry", key: key)
}
