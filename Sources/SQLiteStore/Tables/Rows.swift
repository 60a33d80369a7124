// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// The statements that write a row, both with the same parameters: whoever has loaded it knows which to take, and SQLite need not look.
struct SavedRows {
    let insert, update: String

    init(of table: String, key: [String], values: [String]) {
        let columns = key + values
        let places = columns.indices.map { "?\($0 + 1)" }
        func equations(_ names: ArraySlice<String>) -> [String] { names.indices.map { "\(names[$0]) = \(places[$0])" } }
        insert = "INSERT INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(places.joined(separator: ", ")))"
        update = """
            UPDATE \(table) SET \(equations(columns[key.count...]).joined(separator: ", "))
             WHERE \(equations(columns[..<key.count]).joined(separator: " AND "))
            """
    }
}

extension CredentialRecord {
    private static let names = [
        "granted_at", "token_granted_at", "token_fingerprint", "sealed_token", "revoked_at", "verified_at", "rejected_at", "answered_at",
        "due_at", "failures", "attempts", "claimed_by", "unverified", "pending_since", "pending_asked_at", "pending_key", "never_accepted",
        "first_check", "answer", "verified_team", "former_granted_at", "former_fingerprint", "former_sealed",
        "former_verified_at", "former_verified_team", "older_tokens",
    ]
    static let columns = names.joined(separator: ", ")
    static let table = SavedRows(of: "credential", key: ["user_id", "client", "app"], values: ["state", "reason", "changed_at"] + names)

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: PreparedStatement.Columns, from start: Int) {
        self.init()
        credential.grantedAt = row.time(at: start)
        credential.token = RefreshToken(row, from: start + 1)
        credential.revokedAt = row.time(at: start + 4)
        credential.verifiedAt = row.time(at: start + 5)
        credential.rejectedAt = row.time(at: start + 6)
        answeredAt = row.time(at: start + 7)
        dueAt = row.time(at: start + 8)
        failures = Int(row.integer(at: start + 9))
        attempts = Int(row.integer(at: start + 10))
        claimedBy = row.text(at: start + 11)
        isUnverified = row.integer(at: start + 12) != 0
        pending = PendingRejection(row, from: start + 13)
        isNeverAccepted = row.integer(at: start + 16) != 0
        firstCheck = row.isNull(at: start + 17) ? nil : FirstCheck(rawValue: Int(row.integer(at: start + 17)))
        answer = row.text(at: start + 18).flatMap(TokenAnswer.init)
        credential.verifiedTeam = row.text(at: start + 19)
        credential.formerToken = RefreshToken(row, from: start + 20)
        credential.formerVerifiedAt = row.time(at: start + 23)
        credential.formerVerifiedTeam = row.text(at: start + 24)
        if !row.isNull(at: start + 25) { credential.olderTokens = OlderTokens(row.bytes(at: start + 25)) }
    }

    /// - Parameter statement: `table.insert` or `table.update`.
    func save(
        user userID: String,
        client: ClientDirectory.Client,
        standing: CredentialStanding,
        by statement: PreparedStatement
    ) throws {
        try statement.run(
            userID,
            client.id,
            client.app.id,
            standing.state.rawValue,
            standing.reason.rawValue,
            standing.since,
            credential.grantedAt,
            credential.token?.key.grantedAt,
            credential.token?.key.fingerprint,
            credential.token?.sealed?.bytes,
            credential.revokedAt,
            credential.verifiedAt,
            credential.rejectedAt,
            answeredAt,
            dueAt,
            failures,
            attempts,
            claimedBy,
            isUnverified,
            pending?.answeredAt,
            pending?.requestedAt,
            pending?.keyID,
            isNeverAccepted,
            firstCheck?.rawValue,
            answer?.rawValue,
            credential.verifiedTeam,
            credential.formerToken?.key.grantedAt,
            credential.formerToken?.key.fingerprint,
            credential.formerToken?.sealed?.bytes,
            credential.formerVerifiedAt,
            credential.formerVerifiedTeam,
            credential.olderTokens.bytes
        )
    }
}

extension RefreshToken {
    /// - Parameter row: when it was granted, its fingerprint and the sealed bytes, from the given index on.
    init?(_ row: PreparedStatement.Columns, from start: Int) {
        guard let grantedAt = row.time(at: start) else { return nil }
        self.init(
            key: Key(grantedAt: grantedAt, fingerprint: row.bytes(at: start + 1)),
            sealed: row.isNull(at: start + 2) ? nil : SealedToken(bytes: row.bytes(at: start + 2))
        )
    }
}

extension PendingRejection {
    /// - Parameter row: `pending_since, pending_asked_at, pending_key`, from the given index on.
    init?(_ row: PreparedStatement.Columns, from start: Int) {
        guard let since = row.time(at: start), let requestedAt = row.time(at: start + 1) else { return nil }
        self.init(requestedAt: requestedAt, answeredAt: since, keyID: row.text(at: start + 2) ?? "")
    }
}

extension ClientRecord {
    /// - Parameter row: `valid_at, refused_since, refused_at, refusal`.
    init(_ row: Row) {
        self.init(validAt: row.time(at: 0), refusal: ClientRefusal(row, from: 1))
    }
}

extension ClientRefusal {
    /// - Parameter row: `refused_since, refused_at, refusal`, from the given index on.
    init?(_ row: Row, from start: Int) {
        guard let since = row.time(at: start), let at = row.time(at: start + 1) else { return nil }
        self.init(since: since, at: at, word: (row[start + 2] as String?) ?? "")
    }

    /// Of each client that Apple refuses.
    static func all(in db: Database) throws -> [String: ClientRefusal] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT client_id, refused_since, refused_at, refusal FROM client WHERE refused_at IS NOT NULL"
            )
        )
        var refusals: [String: ClientRefusal] = [:]
        for row in rows {
            let clientID: String = row[0]
            refusals[clientID] = ClientRefusal(row, from: 1)
        }
        return refusals
    }
}

extension AppUser {
    private static let names = [
        "consent_revoked_at", "deleted_at", "revoked_at", "email_at", "email_rank", "email", "email_is_private", "forwarding_at",
        "forwarding",
    ]
    static let columns = names.joined(separator: ", ")
    static let table = SavedRows(of: "user_event", key: ["user_id", "app"], values: names)

    /// - Parameter row: `columns`.
    init(_ row: PreparedStatement.Columns) {
        self.init()
        consentRevokedAt = row.time(at: 0)
        deletedAt = row.time(at: 1)
        revokedAt = row.time(at: 2)
        if let at = row.time(at: 3), let rank = Mailbox.Rank(rawValue: Int(row.integer(at: 4))) {
            let isPrivate = row.isNull(at: 6) ? nil : row.integer(at: 6) != 0
            mailbox = Mailbox(at: at, rank: rank, address: EmailAddress(row.text(at: 5) ?? "", isPrivate: isPrivate))
        }
        if let at = row.time(at: 7), let status = row.text(at: 8).flatMap(Forwarding.Status.init) {
            forwarding = Forwarding(at: at, status: status)
        }
    }

    /// - Parameter statement: `table.insert` or `table.update`.
    func save(user userID: String, app: Int64, by statement: PreparedStatement) throws {
        try statement.run(
            userID,
            app,
            consentRevokedAt,
            deletedAt,
            revokedAt,
            mailbox?.at,
            mailbox?.rank.rawValue,
            mailbox?.address.text,
            mailbox?.address.isPrivate,
            forwarding?.at,
            forwarding?.status.rawValue
        )
    }
}

extension Row {
    func time(at index: Int) -> Timestamp? {
        (self[index] as Int64?).map(Timestamp.init(milliseconds:))
    }
}
