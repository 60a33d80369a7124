// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

internal import CredentialCore
internal import GRDB

/// Sign-ins that wait in their queue and go before what is said of their users' older ones.
///
/// Only those count that can be taken. One that was put off, or that another lane takes, may wait for long, and holds nothing back.
struct WaitingGrants {
    /// Whether there is any. Nobody adds one while the transaction lasts.
    private let isAny: Bool
    private let ofApp, ofClient: PreparedStatement

    init(in db: Database) throws {
        isAny = try Bool.fetchOne(db.cachedStatement(sql: "SELECT MAX(id) IS NOT NULL FROM grant_queue")) ?? false
        ofApp = try PreparedStatement(
            """
            SELECT 1 FROM grant_queue g JOIN client c ON c.client_id = g.client_id
             WHERE g.user_id = ?1 AND g.granted_at >= ?2 AND c.app = ?3 AND \(Self.canBeTaken("g", at: "?4")) LIMIT 1
            """,
            in: db
        )
        ofClient = try PreparedStatement(
            """
            SELECT 1 FROM grant_queue g
             WHERE g.user_id = ?1 AND g.granted_at > ?2 AND g.client_id = ?3 AND \(Self.canBeTaken("g", at: "?4")) LIMIT 1
            """,
            in: db
        )
    }

    /// Whether a user's sign-in at any client of an app waits that is not older than `time`.
    func contains(_ userID: String, of app: ClientDirectory.App, since time: Timestamp, at now: Timestamp) throws -> Bool {
        try isAny && ofApp.first(userID, time, app.id, now) { _ in true } ?? false
    }

    /// Whether a sign-in at this client waits that is newer than `time`.
    func contains(_ credential: CredentialID, newerThan time: Timestamp, at now: Timestamp) throws -> Bool {
        try isAny && ofClient.first(credential.userID, time, credential.clientID, now) { _ in true } ?? false
    }

    /// The condition on a row of `grant_queue`.
    static func canBeTaken(_ grant: String, at now: String) -> String {
        "\(grant).authorization_code IS NULL AND (\(grant).due_at <= \(now) OR \(grant).claimed_by IS NOT NULL)"
    }
}
