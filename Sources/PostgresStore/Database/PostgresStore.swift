// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import CredentialTables
package import NIOConcurrencyHelpers

/// A schema of a PostgreSQL database: the connections to it, each with a thread of its own.
///
/// Whatever takes locks takes them in one order: rows of queues by id, users, credentials, breakers, and last the tail, which is all that
/// settlements share. Claims wait for nobody: they skip what is locked.
package final class PostgresStore: Sendable {
    let address: PostgresAddress
    /// Settlements, and what operators ask.
    let writer: ConnectionThread
    let claims: ConnectionThread
    let reader: ConnectionThread
    /// Renewals of leases, which wait for no commit.
    let renewals: ConnectionThread
    package let retention: Retention
    let longestClaimWait: Duration
    package let directory = NIOLockedValueBox(ClientDirectory())
    /// The configured apps.
    let registered = NIOLockedValueBox<[AppClients]>([])
    /// By table.
    package let pruning = NIOLockedValueBox<[String: PruneProgress]>([:])
    /// How many batches were settled, or were to be.
    let batches = NIOLockedValueBox<Int64>(0)
    /// Whether their number has a row to stand in.
    let hasBatchRow = NIOLockedValueBox(false)
    /// This process's name on the rows it claims.
    let owner = String(UInt64.random(in: .min ... .max), radix: 36)

    /// - Parameter longestClaimWait: from the moment at which a claim is asked for to its first statement.
    init(
        _ address: PostgresAddress,
        isForReading: Bool = false,
        retention: Retention = Retention(),
        longestClaimWait: Duration = .seconds(15)
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
                label: "siwatch \(label)"
            )
        }
        writer = thread("writer", usesIndexes: true)
        // Every lane waits for these: a table that somebody has locked must not hold up those of the others.
        claims = thread("claims", usesIndexes: true, longestLockWait: .seconds(1))
        renewals = thread("renewals", longestLockWait: .seconds(1))
        reader = thread("reader", longestLockWait: isForReading ? .seconds(10) : .seconds(1))
    }

    /// Connects, and brings the schema up to date.
    ///
    /// - Throws: `StoreOpenError`, or `StoreError`.
    package static func open(_ address: PostgresAddress, retention: Retention = Retention()) throws -> PostgresStore {
        let store = PostgresStore(address, retention: retention)
        try store.loadDirectory(after: { try Migrator(address: address, connection: $0).migrate() })
        return store
    }

    /// Connects to look at what is there, beside others that are at work. Nothing is written, and nothing but reading works.
    ///
    /// - Throws: `StoreOpenError` where the schema is not ours to read, or `StoreError`.
    package static func openForReading(_ address: PostgresAddress) throws -> PostgresStore {
        let store = PostgresStore(address, isForReading: true)
        try store.loadDirectory(after: { try Migrator(address: address, connection: $0).refuseOther() })
        return store
    }

    /// Connects to append and to ask, beside others that are at work. The schema is left as it is.
    ///
    /// - Throws: `StoreOpenError` where the schema is not ours, or `StoreError`.
    package static func openBeside(_ address: PostgresAddress) throws -> PostgresStore {
        let store = PostgresStore(address)
        try store.loadDirectory(after: { try Migrator(address: address, connection: $0).refuseOther() })
        return store
    }

    /// Whether there is a siwatch in the schema.
    ///
    /// - Throws: `StoreOpenError` where something else is, or a newer siwatch; or `StoreError`.
    package static func exists(at address: PostgresAddress) throws -> Bool {
        try PostgresStore(address, isForReading: true).reader.wait { reader in
            try reader.run { try Migrator(address: address, connection: $0).isThere() }
        }
    }

    private func loadDirectory(after prepare: @Sendable (Connection) throws -> Void) throws {
        try writer.wait { writer in try writer.run(prepare) }
        try loadDirectory()
    }

    /// Whether anything is sealed, so that a lost key file must not be replaced by a new one.
    package func hasSealedRows() throws -> Bool {
        try blockingQuery { try $0.exists("SELECT 1 FROM secret") }
    }

    /// As the server calls itself.
    package var version: String {
        get throws { try blockingQuery { try $0.fetchOne("SELECT current_setting('server_version')")?.text(at: 0) ?? "" } }
    }

    package var fleet: (any Fleet)? { self }

    package func close() async throws {
        for thread in [writer, claims, reader, renewals] { await thread.close() }
    }
}
