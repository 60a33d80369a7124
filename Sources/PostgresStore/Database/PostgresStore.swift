// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
package import CredentialTables
package import NIOConcurrencyHelpers

/// A schema of a PostgreSQL database. Each connection to it has a thread of its own.
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
    package let decisions = DecisionBook(isOnlyWriter: false)
    let registered = NIOLockedValueBox<[AppClients]>([])
    package let upkeep = NIOLockedValueBox(UpkeepProgress())
    let batches = NIOLockedValueBox<Int64>(0)
    let hasBatchRow = NIOLockedValueBox(false)
    package let owner = String(UInt64.random(in: .min ... .max), radix: 36)

    /// - Parameters:
    ///   - longestClaimWait: the longest time from the call of a claim to its first statement.
    ///   - patience: how long others wait for an answer. Nil if they wait for the server.
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
        func thread(_ label: String, usesIndexes: Bool = false, longestLockWait: Duration) -> ConnectionThread {
            let kind = SessionKind(isForReading: isForReading, usesIndexes: usesIndexes, longestLockWait: longestLockWait)
            return ConnectionThread(address, kind, patience: patience, label: "siwatch \(label)")
        }
        writer = thread("writer", usesIndexes: true, longestLockWait: longestLockWait)
        // Every lane waits for these connections. A locked table must not block the lanes of other tables.
        claims = thread("claims", usesIndexes: true, longestLockWait: .seconds(1))
        renewals = thread("renewals", longestLockWait: .seconds(1))
        reader = thread("reader", longestLockWait: isForReading ? .seconds(10) : .seconds(1))
    }

    /// Connects, and brings the schema up to date.
    /// - Throws: `StoreOpenError`, or `StoreError`.
    package static func open(
        _ address: PostgresAddress,
        retention: Retention = Retention(),
        nextSteps: [SchemaStep] = []
    ) throws -> PostgresStore {
        let store = PostgresStore(address, retention: retention)
        let steps = Schema.steps + nextSteps
        try store.writer.wait { try Migrator(address: address, connection: $0, steps: steps).migrate() }
        try store.loadDirectory()
        return store
    }

    /// Connects for reading only, beside other siwatch at work.
    /// - Throws: `StoreOpenError` if siwatch may not read the schema or did not make it, or `StoreError`.
    package static func openForReading(_ address: PostgresAddress) throws -> PostgresStore {
        let store = PostgresStore(address, isForReading: true)
        try store.loadDirectoryOfExisting()
        return store
    }

    /// Connects to append and to query, beside other siwatch at work. Leaves the schema as it is.
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

    /// - Throws: `StoreOpenError` if the schema holds something else or a newer siwatch, or `StoreError`.
    package static func exists(at address: PostgresAddress) throws -> Bool {
        try reader(of: address).wait { try Migrator(address: address, connection: $0).isThere() }
    }

    /// - Throws: `StoreOpenError` if this program cannot use the schema, or `StoreError`.
    package static func migrationPlan(of address: PostgresAddress) throws -> MigrationPlan {
        try reader(of: address).wait { try Migrator(address: address, connection: $0).plan() }
    }

    /// Whether a schema of any version holds anything sealed. If so, no new key file may replace a lost one.
    package static func hasSealedRows(in address: PostgresAddress) throws -> Bool {
        try reader(of: address).wait { try $0.exists("SELECT 1 FROM secret") }
    }

    static func reader(of address: PostgresAddress) -> ConnectionThread { PostgresStore(address, isForReading: true).reader }

    private func loadDirectoryOfExisting() throws {
        guard try reader.wait({ try Migrator(address: self.address, connection: $0).isThere() }) else {
            throw StoreOpenError("the schema \(address.schema) is not there yet; siwatch migrate creates it")
        }
        try loadDirectory()
    }

    /// The version in the server's own words.
    package var version: String {
        get async throws { try await query { try $0.fetchOne("SELECT current_setting('server_version')")?.text(at: 0) ?? "" } }
    }

    package var fleet: (any Fleet)? { self }

    package func close() async throws { for thread in [writer, claims, reader, renewals] { await thread.close() } }
}
