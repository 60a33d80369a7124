// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Sign-ins of a file that `siwatch import` tells in one transaction.
///
/// siwatch remembers its key for `RequestKey.life`, so that a repeated import skips it.
package struct ImportBatch: Sendable {
    /// Names the import.
    package var importID: String
    /// A digest of the rows.
    package var key: String
    /// The key of the batch that this run of the import told before; nil for its first batch.
    package var after: String?
    package var signIns: [ToldSignIn]

    /// How many sign-ins one transaction tells. Others wait only briefly for so few.
    package static let size = 512

    package init(importID: String, key: String, after: String? = nil, signIns: [ToldSignIn]) {
        self.importID = importID
        self.key = key
        self.after = after
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

/// What Apple says of the sealed token that a credential holds.
package struct ImportedToken: Sendable, Equatable {
    /// The time of the sign-in that brought the token.
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
