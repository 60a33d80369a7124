// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// The columns of `credential`, and the values in their order.
extension CredentialRecord {
    /// The columns that `init(_:from:)` reads.
    package static let columnNames = [
        "granted_at", "token_granted_at", "token_fingerprint", "sealed_token", "revoked_at", "verified_at", "rejected_at", "answered_at",
        "due_at", "failures", "attempts", "claimed_by", "unverified", "pending_since", "pending_asked_at", "pending_key", "never_accepted",
        "first_check", "answer", "verified_team", "former_granted_at", "former_fingerprint", "former_sealed",
        "former_verified_at", "former_verified_team", "older_tokens",
    ]
    package static let keyColumns = ["user_id", "client", "app"]
    /// The columns besides the key. `values` gives the key first and these next.
    package static let valueColumns = ["state", "reason", "changed_at"] + columnNames

    /// - Parameter row: `columnNames`, from the given index on.
    package init(_ row: some TableRow, from start: Int) {
        self.init()
        credential.grantedAt = row.time(at: start)
        credential.token = RefreshToken(row, from: start + 1)
        credential.revokedAt = row.time(at: start + 4)
        credential.verifiedAt = row.time(at: start + 5)
        credential.rejectedAt = row.time(at: start + 6)
        answeredAt = row.time(at: start + 7)
        dueAt = row.time(at: start + 8)
        failures = row.count(at: start + 9)
        attempts = row.count(at: start + 10)
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

    /// The values of `keyColumns` and `valueColumns`.
    package func values(user userID: String, client: ClientDirectory.Client, standing: CredentialStanding) -> [ColumnValue] {
        [
            userID.columnValue,
            client.id.columnValue,
            client.app.id.columnValue,
            standing.state.rawValue.columnValue,
            standing.reason.rawValue.columnValue,
            standing.since.columnValue,
            credential.grantedAt.columnValue,
            credential.token?.key.grantedAt.columnValue ?? Timestamp.null,
            credential.token?.key.fingerprint.columnValue ?? [UInt8].null,
            credential.token?.sealed?.bytes.columnValue ?? [UInt8].null,
            credential.revokedAt.columnValue,
            credential.verifiedAt.columnValue,
            credential.rejectedAt.columnValue,
            answeredAt.columnValue,
            dueAt.columnValue,
            failures.columnValue,
            attempts.columnValue,
            claimedBy.columnValue,
            isUnverified.columnValue,
            pending?.answeredAt.columnValue ?? Timestamp.null,
            pending?.requestedAt.columnValue ?? Timestamp.null,
            pending?.keyID.columnValue ?? String.null,
            isNeverAccepted.columnValue,
            firstCheck?.rawValue.columnValue ?? Int.null,
            answer?.rawValue.columnValue ?? String.null,
            credential.verifiedTeam.columnValue,
            credential.formerToken?.key.grantedAt.columnValue ?? Timestamp.null,
            credential.formerToken?.key.fingerprint.columnValue ?? [UInt8].null,
            credential.formerToken?.sealed?.bytes.columnValue ?? [UInt8].null,
            credential.formerVerifiedAt.columnValue,
            credential.formerVerifiedTeam.columnValue,
            credential.olderTokens.bytes.columnValue,
        ]
    }
}

extension RefreshToken {
    /// - Parameter row: the grant time, the fingerprint and the sealed bytes, from the given index on.
    package init?(_ row: some TableRow, from start: Int) {
        guard let grantedAt = row.time(at: start) else { return nil }
        self.init(
            key: Key(grantedAt: grantedAt, fingerprint: row.bytes(at: start + 1)),
            sealed: row.isNull(at: start + 2) ? nil : SealedToken(bytes: row.bytes(at: start + 2))
        )
    }
}

extension PendingRejection {
    /// - Parameter row: `pending_since, pending_asked_at, pending_key`, from the given index on.
    package init?(_ row: some TableRow, from start: Int) {
        guard let since = row.time(at: start), let requestedAt = row.time(at: start + 1) else { return nil }
        self.init(requestedAt: requestedAt, answeredAt: since, keyID: row.text(at: start + 2) ?? "")
    }
}

extension ClaimableCredential {
    /// - Parameter row: `user_id, client, attempts, due_at`.
    package init(_ row: some TableRow) {
        self.init(
            userID: row.text(at: 0) ?? "",
            client: row.integer(at: 1),
            attempts: row.int(at: 2),
            dueAt: Timestamp(milliseconds: row.integer(at: 3))
        )
    }
}
