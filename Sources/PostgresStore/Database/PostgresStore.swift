// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
package import NIOConcurrencyHelpers

/// A schema of a PostgreSQL database, and the connections to it. Each connection has a thread of its own.
///
/// Every transaction takes its locks in one order: rows of queues by id, users, credentials, breakers, and last the tail, which all
/// settlements share. Claims wait for no lock, because they skip locked rows.
package final class PostgresStore: Sendable {
    let address: PostgresAddress
    /// For settlements and operators' requests.
    let writer: ConnectionThread
    let claims: ConnectionThread
    let reader: ConnectionThread
    /// For renewals of leases, which wait for no commit.
    let renewals: ConnectionThread
    package let retention: Retention
    let longestClaimWait: Duration
    package let directory = NIOLockedValueBox(ClientDirectory())
    /// The configured apps.
    let registered = NIOLockedValueBox<[AppClients]>([])
    package let pruning = NIOLockedValueBox<[String: PruneProgress]>([:])
    package let walkedUsers = NIOLockedValueBox("")
    package let erasedUpTo = NIOLockedValueBox<[String: Int64]>([:])
    /// The number of batches that siwatch has begun to settle.
    let batches = NIOLockedValueBox<Int64>(0)
    /// Whether the batch number has its row.
    let hasBatchRow = NIOLockedValueBox(false)
    /// This process's name on the rows it claims.
    package let owner = String(UInt64.random(in: .min ... .max), radix: 36)

    /// - Parameters:
    ///   - longestClaimWait: the longest time from the call of a claim to its first statement.
    ///   - patience: how long others wait for an answer to a query or a transaction. Nil if they wait for the server.
    init(
        _ address: PostgresAddress,
        isForReading: Bool = false,
        retention: Retention = Retention(),
        longestClaimWait: Duration = .seconds(15),
        longestLockWait: Duration = .seconds(10),
        patience: Duration? = nil
    ) {
        self.address = address
        self.retention = retention
        self.longestClaimWait = longestClaimWait
        func thread(_ label: String, usesIndexes: Bool = false, longestLockWait: Duration = .seconds(10)) -> ConnectionThread {
            ConnectionThread(
                address,
                isForReading: isForReading,
                usesIndexes: usesIndexes,
                longestLockWait: longestLockWait,
                patience: patience,
                label: "siwatch \(label)"
            )
        }
        writer = thread("writer", usesIndexes: true, longestLockWait: longestLockWait)
        // Every lane waits for these connections. A locked table must not block the lanes of other tables.
        claims = thread("claims", usesIndexes: true, longestLockWait: .seconds(1))
        renewals = thread("renewals", longestLockWait: .seconds(1))
        reader = thread("reader", longestLockWait: isForReading ? .seconds(10) : .seconds(1))
    }

    /// Connects, and brings the schema up to date.
    ///
    /// - Throws: `StoreOpenError`, or `StoreError`.
    /// - Parameter nextSteps: steps of a later release, for tests.
    package static func open(
        _ address: PostgresAddress,
        retention: Retention = Retention(),
        nextSteps: [SchemaStep] = []
    ) throws -> PostgresStore {
        let store = PostgresStore(address, retention: retention)
        let steps = Schema.steps + nextSteps
        try store.writer.wait { writer in
            try writer.run { try Migrator(address: address, connection: $0, steps: steps).migrate() }
        }
        try store.loadDirectory()
        return store
    }

    /// Connects for reading only, beside other siwatch at work.
    ///
    /// - Throws: `StoreOpenError` if siwatch may not read the schema or did not make it, or `StoreError`.
    package static func openForReading(_ address: PostgresAddress) throws -> PostgresStore {
        let store = PostgresStore(address, isForReading: true)
        try store.loadDirectoryOfExisting()
        return store
    }

    /// Connects to append and to query, beside other siwatch at work. Leaves the schema as it is.
    ///
    /// - Parameters:
    ///   - longestLockWait: how long a row waits for a table that somebody has locked.
    ///   - patience: how long others wait for an answer. Nil if they wait for the server.
    /// - Throws: `StoreOpenError` if the schema is not siwatch's, or `StoreError`.
    package static func openBeside(
        _ address: PostgresAddress,
        longestLockWait: Duration = .seconds(10),
        patience: Duration? = nil
    ) throws -> PostgresStore {
        let store = PostgresStore(address, longestLockWait: longestLockWait, patience: patience)
        try store.loadDirectoryOfExisting()
        return store
    }

    /// Whether the schema holds the tables of siwatch.
    ///
    /// - Throws: `StoreOpenError` if the schema holds something else or a newer siwatch, or `StoreError`.
    package static func exists(at address: PostgresAddress) throws -> Bool {
        try onReader(of: address) { try Migrator(address: address, connection: $0).isThere() }
    }

    /// What a migration would do to the schema. Changes nothing.
    ///
    /// - Throws: `StoreOpenError` if this program cannot use the schema, or `StoreError`.
    package static func migrationPlan(of address: PostgresAddress) throws -> MigrationPlan {
        try onReader(of: address) { try Migrator(address: address, connection: $0).plan() }
    }

    /// Whether a schema of any version holds anything sealed. If so, no new key file may replace a lost one.
    package static func hasSealedRows(in address: PostgresAddress) throws -> Bool {
        try onReader(of: address) { try $0.rows("SELECT EXISTS (SELECT 1 FROM secret)").isTrue }
    }

    private static func onReader<Value: Sendable>(
        of address: PostgresAddress,
        _ body: @Sendable (Connection) throws -> Value
    ) throws -> Value {
        try PostgresStore(address, isForReading: true).reader.wait { reader in try reader.run(body) }
    }

    private func loadDirectoryOfExisting() throws {
        try reader.wait { reader in
            try reader.run { try Migrator(address: self.address, connection: $0).refuseOther() }
        }
        try loadDirectory()
    }

    /// The version in the server's own words.
    package var version: String {
        get async throws { try await query { try $0.fetchOne("SELECT current_setting('server_version')")?.text(at: 0) ?? "" } }
    }

    package var fleet: (any Fleet)? { self }

    package func close() async throws {
        for thread in [writer, claims, reader, renewals] { await thread.close() }
    }
}
