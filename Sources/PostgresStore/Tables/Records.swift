// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension ClientRecord {
    /// - Parameter row: `valid_at, refused_since, refused_at, refusal`, from the given index on.
    init(_ row: Row, from start: Int) {
        self.init(validAt: row.time(at: start), refusal: ClientRefusal(row, from: start + 1))
    }
}

extension ClientRefusal {
    /// - Parameter row: `refused_since, refused_at, refusal`, from the given index on.
    init?(_ row: Row, from start: Int) {
        guard let since = row.time(at: start), let at = row.time(at: start + 1) else { return nil }
        self.init(since: since, at: at, word: row.text(at: start + 2) ?? "")
    }

    /// Of each client that Apple refuses.
    static func all(on connection: Connection) throws -> [String: ClientRefusal] {
        var refusals: [String: ClientRefusal] = [:]
        try connection.rows(
            "SELECT client_id, refused_since, refused_at, refusal FROM client WHERE refused_at IS NOT NULL"
        ).forEach { row in refusals[row.text(at: 0) ?? ""] = ClientRefusal(row, from: 1) }
        return refusals
    }
}

extension CredentialRecord {
    private static let names = [
        "granted_at", "token_granted_at", "token_fingerprint", "sealed_token", "revoked_at", "verified_at", "rejected_at", "answered_at",
        "due_at", "failures", "attempts", "claimed_by", "unverified", "pending_since", "pending_asked_at", "pending_key", "never_accepted",
        "first_check", "answer", "verified_team", "former_granted_at", "former_fingerprint", "former_sealed",
        "former_verified_at", "former_verified_team", "older_tokens",
    ]
    /// - Parameter table: how the statement calls `credential`.
    static func columns(of table: String) -> String { names.map { "\(table).\($0)" }.joined(separator: ", ") }
    static let table = BulkStatements(
        of: "credential",
        key: ["user_id", "client", "app"],
        values: ["state", "reason", "changed_at"] + names
    )

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: Row, from start: Int) {
        self.init()
        credential.grantedAt = row.time(at: start)
        credential.token = RefreshToken(row, from: start + 1)
        credential.revokedAt = row.time(at: start + 4)
        credential.verifiedAt = row.time(at: start + 5)
        credential.rejectedAt = row.time(at: start + 6)
        answeredAt = row.time(at: start + 7)
        dueAt = row.time(at: start + 8)
        failures = row.int(at: start + 9)
        attempts = row.int(at: start + 10)
        claimedBy = row.text(at: start + 11)
        isUnverified = row.bool(at: start + 12)
        pending = PendingRejection(row, from: start + 13)
        isNeverAccepted = row.bool(at: start + 16)
        firstCheck = row.isNull(at: start + 17) ? nil : FirstCheck(rawValue: row.int(at: start + 17))
        answer = row.text(at: start + 18).flatMap(TokenAnswer.init)
        credential.verifiedTeam = row.text(at: start + 19)
        credential.formerToken = RefreshToken(row, from: start + 20)
        credential.formerVerifiedAt = row.time(at: start + 23)
        credential.formerVerifiedTeam = row.text(at: start + 24)
        if !row.isNull(at: start + 25) { credential.olderTokens = OlderTokens(row.bytes(at: start + 25)) }
    }

    /// - Parameter rows: of `table.insert` or `table.update`.
    func append(to rows: inout RowArrays, user userID: String, client: ClientDirectory.Client, standing: CredentialStanding) {
        rows.append(
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
    init?(_ row: Row, from start: Int) {
        guard let grantedAt = row.time(at: start) else { return nil }
        self.init(
            key: Key(grantedAt: grantedAt, fingerprint: row.bytes(at: start + 1)),
            sealed: row.isNull(at: start + 2) ? nil : SealedToken(bytes: row.bytes(at: start + 2))
        )
    }
}

extension PendingRejection {
    /// - Parameter row: `pending_since, pending_asked_at, pending_key`, from the given index on.
    init?(_ row: Row, from start: Int) {
        guard let since = row.time(at: start), let requestedAt = row.time(at: start + 1) else { return nil }
        self.init(requestedAt: requestedAt, answeredAt: since, keyID: row.text(at: start + 2) ?? "")
    }
}

extension AppUser {
    private static let names = [
        "consent_revoked_at", "deleted_at", "revoked_at", "email_at", "email_rank", "email", "email_is_private", "forwarding_at",
        "forwarding",
    ]
    static let columns = names.map { "u.\($0)" }.joined(separator: ", ")
    static let table = BulkStatements(of: "user_event", key: ["user_id", "app"], values: names)

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: Row, from start: Int) {
        self.init()
        consentRevokedAt = row.time(at: start)
        deletedAt = row.time(at: start + 1)
        revokedAt = row.time(at: start + 2)
        if let at = row.time(at: start + 3), let rank = Mailbox.Rank(rawValue: row.int(at: start + 4)) {
            let isPrivate = row.isNull(at: start + 6) ? nil : row.integer(at: start + 6) != 0
            mailbox = Mailbox(at: at, rank: rank, address: EmailAddress(row.text(at: start + 5) ?? "", isPrivate: isPrivate))
        }
        if let at = row.time(at: start + 7), let status = row.text(at: start + 8).flatMap(Forwarding.Status.init) {
            forwarding = Forwarding(at: at, status: status)
        }
    }

    /// - Parameter rows: of `table.update`.
    func append(to rows: inout RowArrays, user userID: String, app: Int64) {
        rows.append(
            userID,
            app,
            consentRevokedAt,
            deletedAt,
            revokedAt,
            mailbox?.at,
            mailbox?.rank.rawValue,
            mailbox?.address.text,
            mailbox?.address.isPrivate.map { $0 ? 1 : 0 },
            forwarding?.at,
            forwarding?.status.rawValue
        )
    }
}
