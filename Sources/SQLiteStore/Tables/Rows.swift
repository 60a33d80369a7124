// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

extension CredentialRecord {
    static let columns = """
        granted_at, token_granted_at, token_fingerprint, sealed_token, revoked_at, verified_at, rejected_at, answered_at, \
        due_at, failures, attempts, claimed_by, unverified, pending_since, pending_asked_at, pending_key, never_accepted, \
        first_check, answer
        """

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: PreparedStatement.Columns, from start: Int) {
        self.init()
        credential.grantedAt = row.time(at: start)
        if let tokenGrantedAt = row.time(at: start + 1) {
            credential.token = RefreshToken(
                key: RefreshToken.Key(grantedAt: tokenGrantedAt, fingerprint: row.bytes(at: start + 2)),
                sealed: row.isNull(at: start + 3) ? nil : SealedToken(bytes: row.bytes(at: start + 3))
            )
        }
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
    }

    static let save = """
        INSERT INTO credential (user_id, client, app, state, reason, changed_at, \(columns))
        VALUES (?, ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (user_id, client) DO UPDATE
           SET state = excluded.state, reason = excluded.reason, changed_at = excluded.changed_at,
               granted_at = excluded.granted_at, token_granted_at = excluded.token_granted_at,
               token_fingerprint = excluded.token_fingerprint, sealed_token = excluded.sealed_token,
               revoked_at = excluded.revoked_at, verified_at = excluded.verified_at, rejected_at = excluded.rejected_at,
               answered_at = excluded.answered_at, due_at = excluded.due_at, failures = excluded.failures,
               attempts = excluded.attempts, claimed_by = excluded.claimed_by, unverified = excluded.unverified,
               pending_since = excluded.pending_since, pending_asked_at = excluded.pending_asked_at,
               pending_key = excluded.pending_key, never_accepted = excluded.never_accepted,
               first_check = excluded.first_check,
               answer = excluded.answer
        """

    /// - Parameter statement: `save`.
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
            answer?.rawValue
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

extension AppUser {
    static let columns = """
        consent_revoked_at, deleted_at, email_at, email_rank, email, email_is_private, forwarding_at, forwarding
        """

    /// - Parameter row: `columns`.
    init(_ row: PreparedStatement.Columns) {
        self.init()
        consentRevokedAt = row.time(at: 0)
        deletedAt = row.time(at: 1)
        if let at = row.time(at: 2), let rank = Mailbox.Rank(rawValue: Int(row.integer(at: 3))) {
            let isPrivate = row.isNull(at: 5) ? nil : row.integer(at: 5) != 0
            mailbox = Mailbox(at: at, rank: rank, address: EmailAddress(row.text(at: 4) ?? "", isPrivate: isPrivate))
        }
        if let at = row.time(at: 6), let status = row.text(at: 7).flatMap(Forwarding.Status.init) {
            forwarding = Forwarding(at: at, status: status)
        }
    }

    static let save = """
        INSERT INTO user_event (user_id, app, \(columns))
        VALUES (?, ?,  ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (user_id, app) DO UPDATE
           SET consent_revoked_at = excluded.consent_revoked_at, deleted_at = excluded.deleted_at,
               email_at = excluded.email_at, email_rank = excluded.email_rank,
               email = excluded.email, email_is_private = excluded.email_is_private,
               forwarding_at = excluded.forwarding_at, forwarding = excluded.forwarding
        """

    /// - Parameter statement: `save`.
    func save(user userID: String, app: Int64, by statement: PreparedStatement) throws {
        try statement.run(
            userID,
            app,
            consentRevokedAt,
            deletedAt,
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
