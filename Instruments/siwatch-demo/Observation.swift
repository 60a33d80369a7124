// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import GRDB

/// A user at a client.
struct CredentialName: Hashable, Sendable {
    var userID: String
    var clientID: String
}

/// Everything that siwatch says, row by row.
struct Observation: Sendable {
    struct Standing: Sendable {
        var state: String
        var reason: String
        var changedAt: Int64?
        var verifiedAt: Int64?
    }

    struct User: Sendable {
        var reason: String
        var forwarding: String?
    }

    /// A row of `credential_change` that says that somebody is no longer authorized.
    struct Ending: Sendable {
        var credential: CredentialName
        var reason: String
        var occurredAt: Int64
        var recordedAt: Int64
    }

    struct LoggedGrant: Sendable {
        var grantedAt: Int64
        var settledAt: Int64
    }

    let tally: Tally
    private(set) var credentials: [CredentialName: Standing] = [:]
    private(set) var users: [String: User] = [:]
    private(set) var endings: [Ending] = []
    private(set) var grants: [CredentialName: [LoggedGrant]] = [:]
    /// From the row in the queue to the state, of each notification, in milliseconds, ascending.
    let delays: [Int]

    init(_ backend: Backend) async throws {
        tally = try await Tally(backend)
        for row in try await backend.rows("SELECT * FROM credential_state") {
            credentials[row.credential] = Standing(
                state: row["state"],
                reason: row["reason"],
                changedAt: row["changed_at"],
                verifiedAt: row["verified_at"]
            )
        }
        for row in try await backend.rows("SELECT user_id, reason, email_forwarding FROM user_state") {
            users[row["user_id"]] = User(reason: row["reason"], forwarding: row["email_forwarding"])
        }
        let changes = try await backend.rows("SELECT * FROM credential_change WHERE kind = 'state' AND to_state <> 'authorized'")
        endings = changes.map { row in
            Ending(credential: row.credential, reason: row["reason"], occurredAt: row["occurred_at"], recordedAt: row["recorded_at"])
        }
        for row in try await backend.rows("SELECT client_id, user_id, granted_at, settled_at FROM grant_log") {
            grants[row.credential, default: []].append(LoggedGrant(grantedAt: row["granted_at"], settledAt: row["settled_at"]))
        }
        delays = try await backend.rows("SELECT settled_at - received_at AS delay FROM notification_log ORDER BY delay").map { $0["delay"] }
    }
}

extension Row {
    fileprivate var credential: CredentialName { CredentialName(userID: self["user_id"], clientID: self["client_id"]) }
}
