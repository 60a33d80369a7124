// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What `siwatch import` tells a store and asks of it.
package protocol ImportDesk: Sendable {
    /// Appends the sign-ins of a batch to `grant_queue`, in one transaction with the key of the batch. Does nothing if the key is known.
    ///
    /// - Throws: `StoreError`. Then nothing is kept, unless it is `outcomeUnknown`.
    func append(_ batch: ImportBatch, at now: Timestamp) async throws -> ToldBatch

    /// What Apple says of the tokens of these credentials, in their order. Nil for a credential without a sealed token.
    func importedTokens(of credentials: [CredentialID]) async throws -> [ImportedToken?]
}
