// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Sign-ins of a file that `siwatch import` tells in one transaction.
///
/// It is told once: its key is remembered with the ids of its rows, so that a repeated import skips it and an undo finds its rows.
package struct ImportBatch: Sendable {
    /// Names the import.
    package var importID: String
    /// A digest of the rows.
    package var key: String
    package var signIns: [ToldSignIn]

    /// How many sign-ins one transaction tells. Others wait only briefly for so few.
    package static let size = 512
    /// How long siwatch remembers which rows an import has told.
    package static let life = Duration.days(30)

    package init(importID: String, key: String, signIns: [ToldSignIn]) {
        self.importID = importID
        self.key = key
        self.signIns = signIns
    }

    /// The owner of the keys. No client of the HTTP door has such a name, because its first character is a control character.
    package static func owner(of importID: String) -> String { "\timport \(importID)" }
}

/// What became of a batch.
package struct ToldBatch: Sendable, Equatable {
    /// Its rows of `grant_queue`.
    package var rows: [Int64]
    /// Whether an earlier run of the import had told it.
    package var isKnown: Bool

    package init(rows: [Int64], isKnown: Bool) {
        self.rows = rows
        self.isKnown = isKnown
    }
}

/// What Apple says of the token that a credential holds.
package struct ImportedToken: Sendable, Equatable {
    /// The time of the sign-in that brought the token; nil if the credential has none.
    package var grantedAt: Timestamp?
    /// Nil while Apple has not answered.
    package var answer: TokenAnswer?
    /// Whether Apple was asked and gave no answer about the token: it refused the client, or could not be reached.
    package var hasFailed: Bool

    package init(grantedAt: Timestamp?, answer: TokenAnswer?, hasFailed: Bool) {
        self.grantedAt = grantedAt
        self.answer = answer
        self.hasFailed = hasFailed
    }
}

/// What the undoing of one batch did, in rows and credentials.
package struct ImportUndo: Codable, Sendable, Equatable {
    /// The key of the batch; nil if no batch is left.
    package var key: String?
    /// Rows that had not left the queue.
    package var removed = 0
    /// Credentials that the import alone had made and whose token Apple had not accepted.
    package var forgotten = 0
    /// Credentials that stay, because Apple has accepted the token or something else is known of them.
    package var kept = 0
    /// Rows and credentials that siwatch was at work on. A repeated undo finds them.
    package var busy = 0

    package init(key: String? = nil) {
        self.key = key
    }
}

extension CredentialRecord {
    /// Whether nothing but sign-ins of these times made the record, and Apple has accepted none of its tokens.
    package func isOnly(of times: Set<Timestamp>) -> Bool {
        let tokens = [credential.token, credential.formerToken].compactMap { $0?.key } + credential.olderTokens.keys
        let told = tokens.map(\.grantedAt) + [credential.grantedAt].compactMap(\.self)
        return !told.isEmpty && told.allSatisfy(times.contains) && credential.verifiedAt == nil && credential.formerVerifiedAt == nil
            && credential.revokedAt == nil
    }
}
