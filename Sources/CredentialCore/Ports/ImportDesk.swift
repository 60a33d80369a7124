// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package protocol ImportDesk: Sendable {
    /// Appends the sign-ins of a batch to `grant_queue`, in one transaction with the key of the batch, unless the key is known. Keeps
    /// nothing and returns nil if the key of the batch before is gone: an undo forgets the keys of its import, so that an import that still
    /// runs ends.
    func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch?
    /// What Apple says of the tokens of these credentials, in their order. Nil for a credential without a sealed token.
    func importedTokens(of credentials: [CredentialID]) async throws -> [ImportedToken?]
    /// How many of these rows of `grant_queue` brought a token that siwatch had from an earlier sign-in, and so changed nothing.
    func retoldSignIns(among rows: [Int64]) async throws -> Int
    func toldImports() async throws -> [ToldImport]
    func rehearseUndo(of importID: String, at now: Timestamp) async throws -> UndoneImport
}

/// Sign-ins of a file that `siwatch import` tells in one transaction. siwatch remembers the key, so that a repeated import skips them.
package struct ImportBatch: Sendable {
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
    package var grantedAt: Timestamp?
    /// Nil while Apple has not answered.
    package var answer: TokenAnswer?
    /// Whether Apple was asked and gave no answer about the token: it refused the client, or could not be reached.
    package var hasFailed: Bool

    package init(grantedAt: Timestamp?, answer: TokenAnswer?, hasFailed: Bool) {
        (self.grantedAt, self.answer, self.hasFailed) = (grantedAt, answer, hasFailed)
    }
}

/// An import, as the store remembers it. It names no user.
package struct ToldImport: Sendable, Equatable, Decodable {
    package var importID: String
    /// Its sign-ins that no undo has taken back or given up.
    package var signIns: Int
    /// When their first and their last batch were told.
    package var from: Timestamp
    package var to: Timestamp
}

/// What one portion of an undo has done. A whole rehearsal is one portion.
package struct UndoneImport: Codable, Sendable, Equatable {
    /// Credentials that are gone.
    package var removed = 0
    /// Waiting sign-ins that are gone.
    package var taken = 0
    /// Sign-ins that the daemon is settling.
    package var claimed = 0
    /// All other sign-ins of the import. What they told stays.
    package var stayed = 0
    /// Whether no other portion is left, but for the claimed sign-ins.
    package var isDone = true

    package init() {}
}
