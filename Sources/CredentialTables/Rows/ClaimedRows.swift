// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Rows that a claim takes or may take.
extension WaitingCode {
    /// - Parameter row: `id, attempts, granted_at`, and since when the code lives.
    init(_ row: some TableRow, client: String?, app: String?) {
        self.init(
            id: row.integer(at: 0),
            attempts: row.int(at: 1),
            client: client,
            app: app,
            grantedAt: row.integer(at: 2),
            livesSince: row.integer(at: 3)
        )
    }
}

extension ClaimedCode {
    /// - Parameters:
    ///   - row: `attempts, granted_at, waits_since, failures, answer_lost, detail`, and the columns of `Content`, from the given index on.
    ///   - apps: the app of each known client.
    init(_ row: some TableRow, from start: Int, id: Int64, owner: String, apps: [String: String]) {
        let content = Content(row, from: start + 6)
        self.init(
            id: id,
            claim: Claim(owner: owner, attempts: row.int(at: start)),
            app: content.flatMap { apps[$0.clientID] },
            grantedAt: Timestamp(milliseconds: row.integer(at: start + 1)),
            firstClaimedAt: Timestamp(milliseconds: row.integer(at: start + 2)),
            failures: row.count(at: start + 3),
            isAnswerLost: row.bool(at: start + 4),
            detail: row.text(at: start + 5, upTo: Longest.token),
            content: content
        )
    }
}

extension DueCredential {
    /// SQL: the columns of `credential` for `init`. Not `verified_at IS NOT NULL`: after RETURNING, SQLite takes that for true in a table
    /// WITHOUT ROWID.
    static let columns = "token_granted_at, token_fingerprint, sealed_token, verified_at, verified_team"

    /// - Parameter row: `columns`, from the given index on.
    init(
        _ row: some TableRow,
        from start: Int,
        of userID: String,
        at client: ClientDirectory.Client,
        for purpose: Purpose,
        _ claim: Claim
    ) {
        self.init(
            id: CredentialID(clientID: client.clientID, userID: userID),
            app: client.app.name,
            purpose: purpose,
            claim: claim,
            token: RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: start)), fingerprint: row.bytes(at: start + 1)),
            sealed: SealedToken(bytes: row.bytes(at: start + 2)),
            wasAccepted: !row.isNull(at: start + 3),
            verifiedTeam: row.text(at: start + 4)
        )
    }
}

extension DueRevocation {
    static let keyColumns = ["request", "client", "token_fingerprint"]
    /// SQL: the columns of `revocation` for `init`.
    static let columns = """
        attempts, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token, standing, verified_team,
        \(RevocationProof.columns)
        """

    /// - Parameter row: `columns`, from the given index on.
    init(_ row: some TableRow, from start: Int, of request: Int64, at client: ClientDirectory.Client, owner: String) {
        self.init(
            request: request,
            requestedAt: Timestamp(milliseconds: row.integer(at: start + 2)),
            id: CredentialID(clientID: client.clientID, userID: row.text(at: start + 1) ?? ""),
            app: client.app.name,
            claim: Claim(owner: owner, attempts: row.int(at: start)),
            token: RefreshToken.Key(grantedAt: Timestamp(milliseconds: row.integer(at: start + 3)), fingerprint: row.bytes(at: start + 4)),
            sealed: SealedToken(bytes: row.bytes(at: start + 5)),
            standing: row.text(at: start + 6).flatMap(Standing.init) ?? .neverAccepted,
            proof: RevocationProof(row, from: start + 8),
            verifiedTeam: row.text(at: start + 7)
        )
    }
}
