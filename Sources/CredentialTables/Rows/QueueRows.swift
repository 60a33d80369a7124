// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Rows that backends wrote into the queues. A column of SQLite may hold any bytes, so siwatch reads each text as bytes.
extension TableRow {
    /// The text of a column; nil if it is absent, not UTF-8, or longer than `limit` bytes.
    func text(at column: Int, upTo limit: Int) -> String? {
        guard !isNull(at: column) else { return nil }
        let bytes = bytes(at: column)
        return bytes.count <= limit ? String(validating: bytes, as: UTF8.self) : nil
    }
}

extension ClaimedGrant.Content {
    /// Nil if a value is not text, or is longer than any real one.
    ///
    /// - Parameter row: `client_id, user_id, refresh_token, email, email_is_private, token_sealed`, from the given index on.
    init?(_ row: some TableRow, from start: Int) {
        guard let clientID = row.text(at: start, upTo: Longest.identifier), let userID = row.text(at: start + 1, upTo: Longest.identifier)
        else { return nil }
        var token: Secret?
        if !row.isNull(at: start + 2) {
            guard let text = row.text(at: start + 2, upTo: Longest.token) else { return nil }
            token = Secret(text)
        }
        // An unusable address costs the address, not the sign-in.
        let isPrivate = row.isNull(at: start + 4) ? nil : row.bool(at: start + 4)
        let address = row.text(at: start + 3, upTo: Longest.address).flatMap { text in
            text.isEmpty || text.utf8.contains(0) ? nil : EmailAddress(text, isPrivate: isPrivate)
        }
        self.init(
            credential: CredentialID(clientID: clientID, userID: userID),
            refreshToken: token,
            sealedToken: row.isNull(at: start + 5) ? nil : row.bytes(at: start + 5),
            address: address
        )
    }
}

extension ClaimedCode.Content {
    /// Nil if a value is not text, or is longer than any real one.
    ///
    /// - Parameter row: `client_id, user_id, authorization_code, redirect_uri, nonce`, from the given index on.
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
        self.init(
            clientID: clientID,
            userID: texts[start + 1],
            code: Secret(code),
            redirectURI: texts[start + 3],
            nonce: texts[start + 4]
        )
    }
}

extension ClaimedRevocationRequest {
    /// - Parameters:
    ///   - row: `requested_at, client_id, user_id, confirmed_at, effective_at`, from the given index on.
    ///   - apps: the app of each known client.
    init(_ row: some TableRow, from start: Int, id: Int64, claim: Claim, apps: [String: String]) {
        let clientID = row.text(at: start + 1, upTo: Longest.identifier)
        let userID = row.text(at: start + 2, upTo: Longest.identifier)
        self.init(
            id: id,
            claim: claim,
            app: clientID.flatMap { apps[$0] },
            requestedAt: Timestamp(milliseconds: row.integer(at: start)),
            effectiveAt: row.time(at: start + 4),
            credential: clientID.flatMap { client in userID.map { CredentialID(clientID: client, userID: $0) } },
            isConfirmed: !row.isNull(at: start + 3)
        )
    }
}
