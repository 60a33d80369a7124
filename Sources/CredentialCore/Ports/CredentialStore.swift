// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// All that a store has to do, whatever it is made of.
package protocol CredentialStore: WorkStore, CredentialReader, SigningKeyStore, OperatorDesk, StoreUpkeep, Registrar, CommitWatch {
    /// Ends every connection.
    func close() async throws
}
