// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

extension PostgresStore {
    /// Takes the lock that an insert takes on each queue, and asks whether the roles that backends log in by may insert.
    ///
    /// A queue may be full of work and still closed to backends: somebody has locked the table, or has taken a right away.
    package func insertObstacle() async throws -> String? {
        // Each try waits a second for the lock. A backend waits without end, so a short maintenance is no obstacle.
        var obstacle: String?
        for _ in 1...Self.insertTries {
            do { return try await tryInsert() } catch StoreError.retry(let reason) { obstacle = reason }
        }
        return obstacle
    }

    private static let insertTries = 5

    private func tryInsert() async throws -> String? {
        try await reader.run { [address] connection in
            if let missing = try connection.missingInsertRights(in: address.schema) { return missing }
            try connection.send("BEGIN")
            try connection.send("LOCK TABLE \(sql: Queue.allCases.map(\.rawValue).joined(separator: ", ")) IN ROW EXCLUSIVE MODE")
            try connection.send("ROLLBACK")
            return nil
        }
    }
}

extension Connection {
    /// The roles that may not insert into their queues, and are used: somebody other than siwatch logs in as them, or belongs to them.
    func missingInsertRights(in schema: String) throws -> String? {
        let pairs = Queue.allCases.flatMap { queue in Schema.roles(of: queue).map { (role: $0, table: queue.rawValue) } }
        let missing = try rows(
            """
            SELECT quote_ident(r.rolname), p.queue FROM unnest(\(array: pairs.map(\.role)), \(array: pairs.map(\.table))) AS p (role, queue)
              JOIN pg_roles r ON r.rolname = p.role
             WHERE (r.rolcanlogin
                    OR EXISTS (SELECT 1 FROM pg_auth_members m JOIN pg_roles u ON u.oid = m.member
                                WHERE m.roleid = r.oid AND u.rolname <> current_user))
               AND NOT (has_schema_privilege(r.oid, \(schema), 'USAGE')
                        AND has_any_column_privilege(r.oid, format('%I.%I', \(schema), p.queue), 'INSERT'))
             ORDER BY 1, 2
            """
        ).map { "\($0.text(at: 0) ?? "") may not insert into \($0.text(at: 1) ?? "")" }
        return missing.isEmpty ? nil : missing.joined(separator: ", ")
    }
}
