// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What `siwatch import` tells a store and asks of it.
package protocol ImportDesk: Sendable {
    /// Appends the sign-ins of a batch to `grant_queue`, in one transaction with the key of the batch. Does nothing if the key is known.
    ///
    /// - Returns: nil if the key of the batch before is not known any more. An undo forgets all keys of its import, so an import that still
    ///   runs ends here. Then nothing is kept.
    /// - Throws: `StoreError`. Then nothing is kept, unless it is `outcomeUnknown`.
    func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch?

    /// What Apple says of the tokens of these credentials, in their order. Nil for a credential without a sealed token.
    func importedTokens(of credentials: [CredentialID]) async throws -> [ImportedToken?]

    /// How many of these rows of `grant_queue` brought a token that siwatch had from an earlier sign-in, and so changed nothing.
    func retoldSignIns(among rows: [Int64]) async throws -> Int

    /// All imports, by name.
    func toldImports() async throws -> [ToldImport]

    /// What an undo of an import would do now.
    func rehearseUndo(of importID: String, at now: Timestamp) async throws -> UndoneImport
}
