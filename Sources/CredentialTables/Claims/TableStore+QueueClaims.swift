// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// Claims of sign-ins and of requests to revoke.
extension TableStore {
    package func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant] {
        let lane = QueueLane(
            queue: .grant,
            condition: "authorization_code IS NULL",
            size: "octet_length(concat(client_id, user_id, refresh_token, token_sealed, email))",
            returning: "granted_at, client_id, user_id, refresh_token, email, email_is_private, token_sealed, import_id"
        )
        return try await claimRows(of: lane, upTo: limit, at: now, lease: lease, suspects: true) { [owner] row in
            ClaimedGrant(
                id: row.integer(at: 0),
                claim: Claim(owner: owner, attempts: row.int(at: 1)),
                grantedAt: Timestamp(milliseconds: row.integer(at: 3)),
                importID: row.isNull(at: 10) ? nil : row.integer(at: 10),
                content: ClaimedGrant.Content(row, from: 4)
            )
        }
    }

    package func claimRevocationRequests(
        upTo limit: Int,
        at now: Timestamp,
        lease: Duration
    ) async throws -> [ClaimedRevocationRequest] {
        let apps = directory.withLockedValue { $0 }.appNames
        let lane = QueueLane(
            queue: .revocation,
            condition: Tables.unopened,
            returning: "requested_at, client_id, user_id, confirmed_at, effective_at"
        )
        return try await claimRows(of: lane, upTo: limit, at: now, lease: lease, suspects: true) { [owner] row in
            let claim = Claim(owner: owner, attempts: row.int(at: 1))
            return ClaimedRevocationRequest(row, from: 3, id: row.integer(at: 0), claim: claim, apps: apps)
        }
    }
}

/// The rows of a queue that one loop claims.
package struct QueueLane: Sendable {
    package let queue: Queue
    /// SQL: which rows of the queue.
    package let condition: String
    /// SQL of a server: how much of `Queue.largestClaim` a row takes.
    package let size: String
    /// SQL: the columns that the loop reads.
    package let returning: String

    package init(queue: Queue, condition: String, size: String = "0", returning: String) {
        self.queue = queue
        self.condition = condition
        self.size = size
        self.returning = returning
    }
}
