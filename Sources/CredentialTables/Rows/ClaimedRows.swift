// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Rows that a claim takes or may take. A column of SQLite may hold any bytes, so siwatch reads each text of a backend as bytes.
extension TableRow {
    /// The text of a column; nil if it is absent, not UTF-8, or longer than `limit` bytes.
    func text(at column: Int, upTo limit: Int) -> String? {
        guard !isNull(at: column) else { return nil }
        let bytes = bytes(at: column)
        return bytes.count <= limit ? String(validating: bytes, as: UTF8.self) : nil
    }
}

extension ClaimedGrant.Content {
    /// From `client_id, user_id, refresh_token, email, email_is_private, token_sealed`. Nil if a value is not text, or is longer than any
    /// real one.
    init?(_ row: some TableRow, from start: Int) {
        guard let clientID = row.text(at: start, upTo: Longest.identifier), let userID = row.text(at: start + 1, upTo: Longest.identifier)
        else { return nil }
        let token = row.text(at: start + 2, upTo: Longest.token)
        guard token != nil || row.isNull(at: start + 2) else { return nil }
        // An unusable address costs the address, not the sign-in.
        let address = row.text(at: start + 3, upTo: Longest.address).flatMap { text in
            text.isEmpty || text.utf8.contains(0) ? nil : EmailAddress(text, isPrivate: row[start + 4])
        }
        let credential = CredentialID(clientID: clientID, userID: userID)
        self.init(credential: credential, refreshToken: token.map { Secret($0) }, sealedToken: row[start + 5], address: address)
    }
}

extension WaitingCode {
    /// From `id, attempts, granted_at`, and since when the code lives.
    init(_ row: some TableRow, client: String?, app: String?) {
        self.init(id: row[0], attempts: row[1], client: client, app: app, grantedAt: row[2], livesSince: row[3])
    }
}

extension ClaimedCode {
    /// From `id, attempts, granted_at, waits_since, failures, answer_lost, detail`, and the columns of `Content`.
    init(_ row: some TableRow, owner: String, apps: [String: String]) {
        let content = Content(row, from: 7)
        self.init(
            id: row[0],
            claim: Claim(owner: owner, attempts: row[1]),
            app: content.flatMap { apps[$0.clientID] },
            grantedAt: row[2],
            firstClaimedAt: row[3],
            failures: row.count(at: 4),
            isAnswerLost: row[5],
            detail: row.text(at: 6, upTo: Longest.token),
            content: content
        )
    }
}

extension ClaimedCode.Content {
    /// From `client_id, user_id, authorization_code, redirect_uri, nonce`. Nil as above.
    init?(_ row: some TableRow, from start: Int) {
        guard let clientID = row.text(at: start, upTo: Longest.identifier), let code = row.text(at: start + 2, upTo: Longest.token) else {
            return nil
        }
        let limits = [start + 1: Longest.identifier, start + 3: Longest.uri, start + 4: Longest.identifier]
        var texts: [Int: String] = [:]
        for (index, limit) in limits where !row.isNull(at: index) {
            guard let text = row.text(at: index, upTo: limit) else { return nil }
            // An empty redirect URI or nonce counts as none, because a native sign-in has neither.
            if !text.isEmpty { texts[index] = text }
        }
        let (userID, redirectURI, nonce) = (texts[start + 1], texts[start + 3], texts[start + 4])
        self.init(clientID: clientID, userID: userID, code: Secret(code), redirectURI: redirectURI, nonce: nonce)
    }
}

extension ClaimedRevocationRequest {
    /// From `id, attempts`, the due time, and `requested_at, client_id, user_id, confirmed_at, effective_at, confirmed_proof`.
    init(_ row: some TableRow, owner: String, apps: [String: String], _ decisions: DecisionBook) {
        let (clientID, userID) = (row.text(at: 4, upTo: Longest.identifier), row.text(at: 5, upTo: Longest.identifier))
        self.init(
            id: row[0],
            claim: Claim(owner: owner, attempts: row[1]),
            app: clientID.flatMap { apps[$0] },
            requestedAt: row[3],
            effectiveAt: row[7],
            credential: clientID.flatMap { client in userID.map { CredentialID(clientID: client, userID: $0) } },
            confirmedAt: row.time(at: 6).flatMap { confirmedAt in
                let (client, user) = (row.bytes(at: 4), row.bytes(at: 5))
                let decision = Decision.confirmation(request: row[0], clientID: client, userID: user, requestedAt: row[3], at: confirmedAt)
                return decisions.isProved(decision, by: row[8], in: DecisionRow(.confirmation, row[0])) ? confirmedAt : nil
            }
        )
    }
}

extension DueCredential {
    /// SQL: the columns of `credential` for `init`. Not `verified_at IS NOT NULL`: after RETURNING, SQLite takes that for true in a table
    /// WITHOUT ROWID.
    static let columns = "token_granted_at, token_fingerprint, sealed_token, verified_at, verified_team"

    init(_ row: some TableRow, from start: Int, of userID: String, at client: ClientDirectory.Client, for purpose: Purpose, _ claim: Claim)
    {
        self.init(
            id: CredentialID(clientID: client.clientID, userID: userID),
            app: client.app.name,
            purpose: purpose,
            claim: claim,
            token: RefreshToken.Key(grantedAt: row[start], fingerprint: row[start + 1]),
            sealed: SealedToken(bytes: row[start + 2]),
            wasAccepted: !row.isNull(at: start + 3),
            verifiedTeam: row[start + 4]
        )
    }
}

extension DueRevocation {
    static let keyColumns = ["request", "client", "token_fingerprint"]
    /// SQL: the columns of `revocation` for `init`.
    static let columns = """
        attempts, user_id, requested_at, token_granted_at, token_fingerprint, sealed_token, standing, verified_team,
        \(RevocationProof.columns), proof, app
        """

    init(_ row: some TableRow, of request: Int64, at client: ClientDirectory.Client, owner: String, _ decisions: DecisionBook) {
        self.init(
            request: request,
            requestedAt: row[2],
            id: CredentialID(clientID: client.clientID, userID: row[1]),
            app: client.app.name,
            claim: Claim(owner: owner, attempts: row[0]),
            token: RefreshToken.Key(grantedAt: row[3], fingerprint: row[4]),
            sealed: SealedToken(bytes: row[5]),
            standing: row.text(at: 6).flatMap(Standing.init) ?? .neverAccepted,
            proof: RevocationProof(row, from: 8),
            verifiedTeam: row[7]
        )
        let opening = Decision.opening(request: request, id, token, requestedAt: requestedAt)
        let proof = row.integer(at: 21) == client.app.id ? row.bytes(at: 20) : []
        isPlanted = !decisions.isProved(opening, by: proof, in: DecisionRow(.revocation, request))
    }
}
