// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Foundation
import GRDB
import NIOConcurrencyHelpers

extension SQLiteStore {
    package func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant] {
        try await claim(from: .grant, where: "authorization_code IS NULL", upTo: limit, at: now) { [owner] db, ids in
            let statement = try db.cachedStatement(
                sql: """
                    UPDATE grant_queue
                       SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?
                     WHERE id = ?
                    RETURNING attempts, granted_at, CAST(client_id AS BLOB), CAST(user_id AS BLOB), CAST(refresh_token AS BLOB),
                              CAST(email AS BLOB), email_is_private, token_sealed
                    """
            )
            let leaseEnd = now.advanced(by: lease).milliseconds
            return try ids.compactMap { id in
                try Row.fetchOne(statement, arguments: [leaseEnd, owner, id]).map { row in
                    ClaimedGrant(
                        id: id,
                        claim: Claim(owner: owner, attempts: row[0]),
                        grantedAt: Timestamp(milliseconds: row[1]),
                        content: ClaimedGrant.Content(row)
                    )
                }
            }
        }
    }

    package func claimRevocationRequests(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration
    ) async throws -> [ClaimedRevocationRequest] {
        let apps = directory.withLockedValue { $0 }.appNames
        return try await claim(from: .revocation, where: "opened_at IS NULL", upTo: limit, at: now) { [owner] db, ids in
            let statement = try db.cachedStatement(
                sql: """
                    UPDATE revocation_queue
                       SET due_at = ?, attempts = MIN(MAX(attempts, 0), 1000) + 1, claimed_by = ?
                     WHERE id = ?
                    RETURNING attempts, requested_at, CAST(client_id AS BLOB), CAST(user_id AS BLOB)
                    """
            )
            let leaseEnd = now.advanced(by: lease).milliseconds
            return try ids.compactMap { id in
                try Row.fetchOne(statement, arguments: [leaseEnd, owner, id]).map { row in
                    let clientID = row.text(at: 2, upTo: Longest.identifier)
                    let userID = row.text(at: 3, upTo: Longest.identifier)
                    return ClaimedRevocationRequest(
                        id: id,
                        claim: Claim(owner: owner, attempts: row[0]),
                        app: clientID.flatMap { apps[$0] },
                        requestedAt: Timestamp(milliseconds: row[1]),
                        credential: clientID.flatMap { client in userID.map { CredentialID(clientID: client, userID: $0) } }
                    )
                }
            }
        }
    }

    private func claim<Work: Sendable>(
        from queue: Queue,
        where lane: String,
        upTo limit: Int,
        at now: Timestamp,
        take: @escaping @Sendable (Database, [Int64]) throws -> [Work]
    ) async throws -> [Work] {
        let table = queue.rawValue
        let furthest = now.advanced(by: queue.longestDelay).milliseconds
        let isDue = try await read { db in
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT EXISTS (SELECT 1 FROM \(table) WHERE \(lane) AND due_at <= ?1)
                            OR EXISTS (SELECT 1 FROM \(table) WHERE \(lane) AND due_at > ?2)
                        """
                ),
                arguments: [now.milliseconds, furthest]
            ) ?? false
        }
        guard isDue, limit > 0 else { return [] }
        return try await write { db in
            try db.execute(cached: "UPDATE \(table) SET due_at = ?1 WHERE \(lane) AND due_at > ?2", [now.milliseconds, furthest])
            var rows: [(id: Int64, attempts: Int)] = []
            for due in Self.turns(of: queue, at: now) where rows.count < limit {
                try PreparedStatement(
                    "SELECT id, attempts FROM \(table) WHERE \(lane) AND due_at BETWEEN ? AND ? ORDER BY due_at, id LIMIT ?",
                    in: db
                ).forEachRow(due.from, due.to, limit - rows.count) { row in
                    rows.append((row.integer(at: 0), Int(row.integer(at: 1))))
                }
            }
            return try take(db, Claim.claimable(rows, suspects: true))
        }
    }

    /// Due times in the order in which their rows are claimed.
    ///
    /// A sign-in that was claimed before goes before all new ones, whose due time is 0: an event waits six minutes for it, and an import
    /// may take longer. A sign-in that was put off goes before them, too, once in six hours.
    private static func turns(of queue: Queue, at now: Timestamp) -> [(from: Timestamp, to: Timestamp)] {
        switch queue {
        case .grant: [(from: Timestamp(milliseconds: 1), to: now), (from: .earliest, to: Timestamp(milliseconds: 0))]
        case .notification, .revocation: [(from: .earliest, to: now)]
        }
    }
}

extension ClaimedGrant.Content {
    /// Reads what the backend wrote as bytes, because SQLite's text may hold anything. Nil where it is not UTF-8, or too long.
    fileprivate init?(_ row: Row) {
        guard let clientID = row.text(at: 2, upTo: Longest.identifier),
            let userID = row.text(at: 3, upTo: Longest.identifier)
        else { return nil }
        let credential = CredentialID(clientID: clientID, userID: userID)
        var token: Secret?
        if row.hasValue(at: 4) {
            guard let text = row.text(at: 4, upTo: Longest.token) else { return nil }
            token = Secret(text)
        }
        // One that cannot be used costs the address, not the sign-in.
        let address = row.text(at: 5, upTo: Longest.address).flatMap { text in
            text.isEmpty || text.utf8.contains(0) ? nil : EmailAddress(text, isPrivate: row[6])
        }
        let sealed = row.hasValue(at: 7) ? row.bytes(at: 7) : nil
        self.init(credential: credential, refreshToken: token, sealedToken: sealed, address: address)
    }
}

extension Row {
    func hasValue(at index: Int) -> Bool {
        !hasNull(atIndex: index)
    }

    func bytes(at index: Int) -> [UInt8] {
        (try? withUnsafeData(atIndex: index) { data in data.map { [UInt8]($0) } }) ?? []
    }

    /// The text in a column selected as bytes; nil where it is absent, not UTF-8, or longer than `limit` bytes.
    func text(at index: Int, upTo limit: Int) -> String? {
        guard hasValue(at: index) else { return nil }
        let bytes = bytes(at: index)
        return bytes.count <= limit ? String(validating: bytes, as: UTF8.self) : nil
    }
}
