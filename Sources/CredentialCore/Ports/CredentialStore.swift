// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// All that a store has to do, whatever it is made of.
package protocol CredentialStore: WorkStore, CredentialReader, BackendDesk, ImportDesk, DeliveryDesk, SigningKeyStore, OperatorDesk,
    StoreUpkeep, Registrar,
    CommitWatch
{
    /// The version of the library or of the server that keeps the tables.
    ///
    /// - Throws: `StoreError`.
    var version: String { get async throws }

    /// The other replicas on this database. Nil if the process that works on it has the lock on it.
    var fleet: (any Fleet)? { get }

    /// Makes rows due that a former process had claimed. Only for the process that has the lock on the database.
    func recover() throws

    /// Writes down that siwatch lives. A replica says so with each renewal.
    func beat(at now: Timestamp) async throws

    /// How often since the last call another process wrote the log back into the file, which only siwatch should do.
    func takeForeignCheckpoints() -> Int

    /// Says that another file stands at a path than the one that is open. Nil if it is the one. A look costs one `stat`.
    ///
    /// - Parameter path: the name by which the file was opened. A link in it may lead elsewhere by now.
    func displacement(from path: String) -> String?

    /// Tries to begin what an insert of a backend begins with, over a connection of its own, and writes nothing.
    ///
    /// - Returns: what keeps backends from inserting, in words that may hold any characters; nil if nothing does.
    /// - Throws: `StoreError` if the database does not answer.
    func insertObstacle() async throws -> String?

    /// How the tables differ from those that siwatch made, in words. Nil if they do not. On a server, rights keep others from changing them.
    ///
    /// - Throws: `StoreError`.
    func schemaDifference() async throws -> String?

    /// Ends every connection.
    func close() async throws
}

/// What a store without a file of its own answers.
extension CredentialStore {
    package var fleet: (any Fleet)? { nil }
    package func recover() throws {}
    package func beat(at now: Timestamp) async throws {}
    package func takeForeignCheckpoints() -> Int { 0 }
    package func displacement(from path: String) -> String? { nil }
    package func schemaDifference() async throws -> String? { nil }
}
