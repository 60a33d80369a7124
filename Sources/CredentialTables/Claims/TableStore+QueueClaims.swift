// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

extension TableStore {
    package func claimGrants(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedGrant] {
        let lane = QueueLane(
            queue: .grant,
            condition: Tables.withoutCode,
            size: "octet_length(concat(client_id, user_id, refresh_token, token_sealed, email))",
            returning: "granted_at, client_id, user_id, refresh_token, email, email_is_private, token_sealed, import_id"
        )
        return try await claimRows(of: lane, upTo: limit, at: now, lease: lease, suspects: true) { [owner] row in
            let (claim, content) = (Claim(owner: owner, attempts: row[1]), ClaimedGrant.Content(row, from: 4))
            return ClaimedGrant(id: row[0], claim: claim, grantedAt: row[3], importID: row[10], content: content)
        }
    }

    package func claimRevocationRequests(upTo limit: Int, at now: Timestamp, lease: Duration) async throws -> [ClaimedRevocationRequest] {
        let apps = directory.withLockedValue { $0 }.appNames
        let columns = "requested_at, client_id, user_id, confirmed_at, effective_at, confirmed_proof"
        let lane = QueueLane(queue: .revocation, condition: Tables.unopened, returning: columns)
        return try await claimRows(of: lane, upTo: limit, at: now, lease: lease, suspects: true) { [owner, decisions] row in
            ClaimedRevocationRequest(row, owner: owner, apps: apps, decisions)
        }
    }
}

package struct QueueLane: Sendable {
    package let queue: Queue
    package let condition: String
    /// SQL of a server: how much of `Queue.largestClaim` a row takes.
    package let size: String
    package let returning: String

    package init(queue: Queue, condition: String, size: String = "0", returning: String) {
        self.queue = queue
        self.condition = condition
        self.size = size
        self.returning = returning
    }
}
