// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The columns of `credential`, in the order of the table.
extension CredentialRecord {
    static let keyColumns = Array(StoredTable.credential.columnNames[..<3])
    static let valueColumns = Array(StoredTable.credential.columnNames[3...])
    /// The columns that `init(_:from:)` reads: all after the key and the published state.
    static let columnNames = Array(StoredTable.credential.columnNames[6...])

    init(_ row: some TableRow, from start: Int) {
        self.init()
        credential.grantedAt = row.time(at: start)
        credential.token = RefreshToken(row, from: start + 1)
        credential.revokedAt = row.time(at: start + 4)
        credential.verifiedAt = row.time(at: start + 5)
        credential.verifiedTeam = row.text(at: start + 6)
        credential.rejectedAt = row.time(at: start + 7)
        answeredAt = row.time(at: start + 8)
        answer = row.text(at: start + 9).flatMap(TokenAnswer.init)
        pending = PendingRejection(row, from: start + 10)
        dueAt = row.time(at: start + 13)
        failures = row.count(at: start + 14)
        firstCheck = row.isNull(at: start + 15) ? nil : FirstCheck(rawValue: row.int(at: start + 15))
        isUnverified = row.bool(at: start + 16)
        isNeverAccepted = row.bool(at: start + 17)
        attempts = row.count(at: start + 18)
        claimedBy = row.text(at: start + 19)
        credential.formerToken = RefreshToken(row, from: start + 20)
        credential.formerVerifiedAt = row.time(at: start + 23)
        credential.formerVerifiedTeam = row.text(at: start + 24)
        if !row.isNull(at: start + 25) { credential.olderTokens = OlderTokens(row.bytes(at: start + 25)) }
        importedBy = row[start + 26]
    }

    func values(user userID: String, client: ClientDirectory.Client, standing: CredentialStanding) -> [ColumnValue] {
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
            credential.verifiedTeam.columnValue,
            credential.rejectedAt.columnValue,
            answeredAt.columnValue,
            answer?.rawValue.columnValue ?? String.null,
            pending?.answeredAt.columnValue ?? Timestamp.null,
            pending?.requestedAt.columnValue ?? Timestamp.null,
            pending?.keyID.columnValue ?? String.null,
            dueAt.columnValue,
            failures.columnValue,
            firstCheck?.rawValue.columnValue ?? Int.null,
            isUnverified.columnValue,
            isNeverAccepted.columnValue,
            attempts.columnValue,
            claimedBy.columnValue,
            credential.formerToken?.key.grantedAt.columnValue ?? Timestamp.null,
            credential.formerToken?.key.fingerprint.columnValue ?? [UInt8].null,
            credential.formerToken?.sealed?.bytes.columnValue ?? [UInt8].null,
            credential.formerVerifiedAt.columnValue,
            credential.formerVerifiedTeam.columnValue,
            credential.olderTokens.bytes.columnValue,
            importedBy.columnValue,
        ]
    }
}

extension RefreshToken {
    init?(_ row: some TableRow, from start: Int) {
        guard let grantedAt = row.time(at: start) else { return nil }
        let sealed: [UInt8]? = row[start + 2]
        self.init(key: Key(grantedAt: grantedAt, fingerprint: row[start + 1]), sealed: sealed.map { SealedToken(bytes: $0) })
    }
}

extension PendingRejection {
    init?(_ row: some TableRow, from start: Int) {
        guard let since = row.time(at: start), let requestedAt = row.time(at: start + 1) else { return nil }
        self.init(requestedAt: requestedAt, answeredAt: since, keyID: row[start + 2])
    }
}

extension ClaimableCredential {
    /// SQL: the columns of `credential` for `init`.
    static let columns = "user_id, client, attempts, due_at"

    init(_ row: some TableRow) { self.init(userID: row[0], client: row[1], attempts: row[2], dueAt: row[3]) }
}
