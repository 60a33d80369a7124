// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import NIOConcurrencyHelpers

/// A store whose tables stand in a database with SQL.
///
/// An engine brings connections, claims and settlements. Everything that is asked at leisure is here once: reading, the operators' desk,
/// upkeep and registration.
package protocol TableStore: CredentialStore {
    associatedtype Connection: TableConnection

    /// The apps and clients that the tables hold.
    var directory: NIOLockedValueBox<ClientDirectory> { get }
    var retention: Retention { get }
    /// How far each table has been searched for old rows.
    var pruning: NIOLockedValueBox<[String: PruneProgress]> { get }

    /// Reads of one moment.
    ///
    /// - Throws: `StoreError`.
    func query<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value

    /// A short read that never waits for a long one.
    ///
    /// - Throws: `StoreError`.
    func shortQuery<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value

    /// A read that a lane waits for.
    ///
    /// - Throws: `StoreError`.
    func laneQuery<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value

    /// One transaction.
    ///
    /// - Throws: `StoreError`.
    func transaction<Value: Sendable>(_ body: @escaping @Sendable (Connection) throws -> Value) async throws -> Value

    /// Reads of one moment, for a caller that blocks: while the store is opened.
    ///
    /// - Throws: `StoreError`.
    func blockingQuery<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value

    /// One transaction, for a caller that blocks: while the store is opened.
    ///
    /// - Throws: `StoreError`.
    func blockingTransaction<Value: Sendable>(_ body: @Sendable (Connection) throws -> Value) throws -> Value

    /// The configured apps have been taken in: sign-ins that waited for one of their clients are due.
    func tookIn(_ apps: [AppClients]) throws

    /// Notes that a sealed token was erased from a row: the files may still hold it.
    func tokenWasErased()

    /// Notifications have become due that were put off. For an engine that remembers where it looked for them.
    func notificationsWereReleased() async

    /// Deletes old rows of the engine's own tables.
    func forgetOwn(at now: Timestamp) async throws
}
