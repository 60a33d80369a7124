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

    /// How many rows of one transaction brought a token that siwatch had from an earlier sign-in, and so changed nothing.
    func retoldSignIns(of told: ToldImport) async throws -> Int

    // MARK: What an undo reads

    /// The transactions of all imports that siwatch remembers, by import and in their order.
    func toldImports() async throws -> [ToldImport]

    /// The users of the rows of one transaction. A user may come twice.
    func importedUsers(of told: ToldImport) async throws -> [String]

    /// How many rows undos have erased from `grant_log`.
    func erasedSignIns() async throws -> Int64

    /// The greatest id of a log; 0 if the log is empty.
    func greatestID(of log: UserLog) async throws -> Int64

    /// Rows of a log after this id, in the order of their ids.
    func loggedUsers(in log: UserLog, after id: Int64, upTo limit: Int) async throws -> [LoggedUser]
}
