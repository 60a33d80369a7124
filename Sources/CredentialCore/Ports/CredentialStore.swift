// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Everything that siwatch needs of a store.
package protocol CredentialStore: WorkStore, CredentialReader, SigningKeyStore, OperatorDesk, StoreUpkeep, Registrar, CommitWatch {
    /// Ends every connection.
    func close() async throws
}
