// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func delivery(_ name: String) async throws -> DeliveryPosition? {
        try await query { try $0.position(of: name) }
    }

    package func beginDelivery(_ name: String) async throws {
        try await transaction { connection in
            try connection.execute(
                """
                INSERT INTO delivery (name, cursor) VALUES ($1, (SELECT COALESCE(MAX(id), 0) FROM credential_change))
                    ON CONFLICT DO NOTHING
                """,
                name
            )
        }
    }

    package func deliveryNames() async throws -> [String] {
        try await query { try $0.fetchAll("SELECT name FROM delivery ORDER BY name").compactMap { $0.text(at: 0) } }
    }

    package func renameDelivery(_ old: String, to new: String) async throws -> Bool {
        try await transaction { connection in
            guard let known = try connection.fetchOne("SELECT cursor, stopped_at FROM delivery WHERE name = $1", old) else { return false }
            // What the other one has sent meanwhile it sends again, with the same ids.
            try connection.execute(
                """
                INSERT INTO delivery (name, cursor, stopped_at) VALUES ($1, $2, $3)
                    ON CONFLICT (name) DO UPDATE
                       SET cursor = CASE WHEN delivery.cursor < excluded.cursor THEN delivery.cursor ELSE excluded.cursor END
                """,
                new,
                known.integer(at: 0),
                known.time(at: 1)
            )
            try connection.execute(
                """
                INSERT INTO delivery_retry (delivery, change_id, failures, due_at, failed_at, reason)
                SELECT $2, change_id, failures, due_at, failed_at, reason FROM delivery_retry WHERE delivery = $1
                    ON CONFLICT (delivery, change_id) DO NOTHING
                """,
                old,
                new
            )
            try connection.forgetDelivery(old)
            return true
        }
    }

    package func forgetDelivery(_ name: String) async throws {
        try await transaction { try $0.forgetDelivery(name) }
    }

    package func advance(_ name: String, from old: Int64, to new: Int64, failed: [FailedChange], at now: Timestamp) async throws {
        try await transaction { connection in
            guard try connection.change("UPDATE delivery SET cursor = $3 WHERE name = $1 AND cursor = $2", name, old, new) == 1 else {
                return
            }
            try connection.keep(failed, of: name, at: now)
        }
    }

    package func dueRetries(of name: String, upTo limit: Int, at now: Timestamp) async throws -> [Retry] {
        try await query { connection in
            func retries(_ condition: String, _ time: Timestamp, upTo limit: Int) throws -> [Retry] {
                try connection.fetchAll(
                    """
                    SELECT r.failures, r.failed_at, \(PublishedChange.columns)
                      FROM delivery_retry r JOIN credential_change c ON c.id = r.change_id
                     WHERE r.delivery = $1 AND r.due_at \(condition) $2 ORDER BY r.due_at, r.change_id LIMIT $3
                    """,
                    name,
                    time,
                    limit
                ).map {
                    Retry(
                        change: try PublishedChange(from: RowDecoder(row: $0)),
                        failures: $0.count(at: 0),
                        failedAt: $0.time(at: 1) ?? now
                    )
                }
            }
            let due = try retries("<=", now, upTo: limit)
            return try due + retries(">", Retry.furthest(at: now), upTo: limit - due.count)
        }
    }

    package func settle(_ name: String, delivered: [Int64], failed: [FailedChange], at now: Timestamp) async throws {
        guard !delivered.isEmpty || !failed.isEmpty else { return }
        try await transaction { connection in
            for id in delivered { try connection.execute("DELETE FROM delivery_retry WHERE delivery = $1 AND change_id = $2", name, id) }
            for change in failed {
                // Not if it went meanwhile.
                try connection.execute(
                    """
                    UPDATE delivery_retry SET failures = $3, due_at = $4, failed_at = $5, reason = $6 WHERE delivery = $1 AND change_id = $2
                    """,
                    name,
                    change.id,
                    change.failures,
                    change.dueAt,
                    now,
                    change.reason
                )
            }
        }
    }

    package func stop(_ name: String, since time: Timestamp?) async throws {
        try await transaction { try $0.execute("UPDATE delivery SET stopped_at = $2 WHERE name = $1", name, time) }
    }

    package func replay(_ name: String, at now: Timestamp) async throws -> Int {
        try await transaction { connection in
            try connection.change("UPDATE delivery_retry SET due_at = $2, failures = 0 WHERE delivery = $1", name, now)
        }
    }

    package func dropDead(of name: String) async throws -> Int {
        try await transaction { try $0.change("DELETE FROM delivery_retry WHERE delivery = $1 AND due_at IS NULL", name) }
    }

    package func forgetUndeliverable() async throws -> [String: Int] {
        try await transaction { connection in
            let gone = try connection.fetchAll(
                """
                DELETE FROM delivery_retry WHERE NOT EXISTS (SELECT 1 FROM credential_change c WHERE c.id = change_id) RETURNING delivery
                """
            )
            return gone.reduce(into: [:]) { $0[$1.text(at: 0) ?? "", default: 0] += 1 }
        }
    }
}

extension PublishedChange {
    /// SQL: its columns of `credential_change c`, and the id of the notification.
    static let columns = StoredTable.credentialChange.columnNames.map { "c.\($0)" }.joined(separator: ", ")
}

extension TableConnection {
    fileprivate func forgetDelivery(_ name: String) throws {
        try execute("DELETE FROM delivery_retry WHERE delivery = $1", name)
        try execute("DELETE FROM delivery WHERE name = $1", name)
    }

    /// Forgets that changes are to be sent, because they are erased.
    ///
    /// - Returns: how many of them were still to be sent at most, by delivery. Which of them it wants, the configuration says.
    func forgetWebhooks(of changes: some Collection<Int64>) throws -> [String: Int] {
        let list = try JSONText.encode(changes.sorted())
        var counts: [String: Int] = [:]
        for delivery in try fetchAll("SELECT name, cursor FROM delivery") {
            let name = delivery.text(at: 0) ?? ""
            let failed = try change(
                "DELETE FROM delivery_retry WHERE delivery = $1 AND \(dialect.isOne("change_id", ofIntegers: "$2"))",
                name,
                list
            )
            counts[name] = failed + changes.count { $0 > delivery.integer(at: 1) }
        }
        return counts.filter { $0.value > 0 }
    }

    fileprivate func position(of name: String) throws -> DeliveryPosition? {
        try fetchOne(
            """
            SELECT cursor, stopped_at, (SELECT COALESCE(MAX(id), 0) FROM credential_change),
                   (SELECT COUNT(*) FROM delivery_retry WHERE delivery = $1 AND due_at IS NOT NULL),
                   (SELECT COUNT(*) FROM delivery_retry WHERE delivery = $1 AND due_at IS NULL),
                   (SELECT c.recorded_at FROM delivery_retry r JOIN credential_change c ON c.id = r.change_id
                     WHERE r.delivery = $1 AND r.due_at IS NOT NULL ORDER BY r.change_id LIMIT 1)
              FROM delivery WHERE name = $1
            """,
            name
        ).map {
            DeliveryPosition(
                cursor: $0.integer(at: 0),
                newest: $0.integer(at: 2),
                stoppedAt: $0.time(at: 1),
                waiting: $0.count(at: 3),
                oldestWaiting: $0.time(at: 5),
                dead: $0.count(at: 4)
            )
        }
    }

    fileprivate func keep(_ failed: [FailedChange], of name: String, at now: Timestamp) throws {
        for change in failed {
            try execute(
                """
                INSERT INTO delivery_retry (delivery, change_id, failures, due_at, failed_at, reason) VALUES ($1, $2, $3, $4, $5, $6)
                    ON CONFLICT (delivery, change_id) DO UPDATE
                       SET failures = excluded.failures, due_at = excluded.due_at, failed_at = excluded.failed_at, reason = excluded.reason
                """,
                name,
                change.id,
                change.failures,
                change.dueAt,
                now,
                change.reason
            )
        }
    }
}
