// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// A schema of a PostgreSQL database: the connections to it, each with a thread of its own.
///
/// Whatever takes locks takes them in one order: rows of queues by id, users, credentials, breakers, and last the tail, which is all that
/// settlements share. Claims wait for nobody: they skip what is locked.
package final class PostgresStore: CredentialStore, Sendable {
    let address: PostgresAddress
    /// Settlements, and what operators ask.
    let writer: ConnectionThread
    let claims: ConnectionThread
    let reader: ConnectionThread
    /// Renewals of leases, which wait for no commit.
    let renewals: ConnectionThread
    let retention: Retention
    let longestClaimWait: Duration
    let directory = NIOLockedValueBox(ClientDirectory())
    /// The configured apps.
    let registered = NIOLockedValueBox<[AppClients]>([])
    /// By table.
    let pruning = NIOLockedValueBox<[String: PruneProgress]>([:])
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
        try store.loadDirectory { try Migrator(address: address, connection: $0).migrate() }
        return store
    }

    /// Connects to look at what is there, beside others that are at work. Nothing is written, and nothing but reading works.
    ///
    /// - Throws: `StoreOpenError` where the schema is not ours to read, or `StoreError`.
    package static func openForReading(_ address: PostgresAddress) throws -> PostgresStore {
        let store = PostgresStore(address, isForReading: true)
        try store.loadDirectory { try Migrator(address: address, connection: $0).refuseOther() }
        return store
    }

    /// Connects to append and to ask, beside others that are at work. The schema is left as it is.
    ///
    /// - Throws: `StoreOpenError` where the schema is not ours, or `StoreError`.
    package static func openBeside(_ address: PostgresAddress) throws -> PostgresStore {
        let store = PostgresStore(address)
        try store.loadDirectory { try Migrator(address: address, connection: $0).refuseOther() }
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
        let directory = try writer.wait { writer in
            try writer.run { connection in
                try prepare(connection)
                return try ClientDirectory(connection)
            }
        }
        self.directory.withLockedValue { $0 = directory }
    }

    /// Whether anything is sealed, so that a lost key file must not be replaced by a new one.
    package func hasSealedRows() throws -> Bool {
        try reader.wait { reader in try reader.run { try $0.rows("SELECT EXISTS (SELECT 1 FROM secret)").isTrue } }
    }

    /// As the server calls itself.
    package func serverVersion() throws -> String {
        try reader.wait { reader in
            try reader.run { try $0.rows("SELECT current_setting('server_version')").first?.text(at: 0) ?? "" }
        }
    }

    /// Takes the configured apps in.
    ///
    /// - Throws: `StoreOpenError` where a client would change hands.
    package func register(_ apps: [AppClients]) throws {
        let known = directory.withLockedValue { $0 }
        let directory = try writer.wait { writer in
            try writer.transaction { connection in
                var directory = known
                try directory.register(apps, on: connection)
                return directory
            }
        }
        self.directory.withLockedValue { $0 = directory }
        registered.withLockedValue { $0 = apps }
        // An import of millions may wait for a client, and nobody is to wait for that.
        var portion: Int64? = 0
        while let begin = portion {
            portion = try writer.wait { writer in
                try writer.transaction { try ClientDirectory.releaseGrants(after: begin, on: $0) }
            }
        }
    }

    /// Finds what `register` would refuse, and changes nothing.
    package func check(_ apps: [AppClients]) throws(StoreOpenError) {
        try directory.withLockedValue { $0 }.check(apps)
    }

    /// A random key that the database keeps sealed, made once.
    ///
    /// - Parameter make: seals a new key where there is none yet.
    package func sealedSecret(named name: String, make: @Sendable () throws -> [UInt8]) throws -> [UInt8] {
        try writer.wait { writer in
            try writer.transaction { connection in
                // Of two who make one, the second takes what the first has made.
                try connection.lockTail()
                if let known = try connection.rows("SELECT sealed FROM secret WHERE name = $1", name).first { return known.bytes(at: 0) }
                let sealed = try make()
                try connection.send("INSERT INTO secret (name, sealed) VALUES ($1, $2)", name, sealed)
                return sealed
            }
        }
    }

    /// The key of that name as it is kept; nil where none was made yet.
    package func sealedSecret(named name: String) throws -> [UInt8]? {
        try reader.wait { reader in
            try reader.run { try $0.rows("SELECT sealed FROM secret WHERE name = $1", name).first?.bytes(at: 0) }
        }
    }

    package func close() async throws {
        for thread in [writer, claims, reader, renewals] { await thread.close() }
    }
}
