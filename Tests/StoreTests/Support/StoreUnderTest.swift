// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting

@testable import PostgresStore
@testable import SQLiteStore

/// A new store with its two sides: the ports for the daemon, and SQL for backends and operators.
///
/// It knows three clients in two apps: `app` and `web` of `example`, and `elsewhere` of `other`.
final class StoreUnderTest: Sendable {
    let ports: any CredentialStore
    let door: any SQLDoor
    private let temporaryFile: TemporaryFile?

    /// - Parameter file: that of the store. It goes with this.
    init(_ ports: any CredentialStore, door: any SQLDoor, file: TemporaryFile? = nil) throws {
        (self.ports, self.door, temporaryFile) = (ports, door, file)
        ports.trust(PlainSealer(), since: .earliest, nil)
        try register("example", ["app", "web"])
        try register("other", ["elsewhere"])
    }

    /// A store in a new file, or in one that is there.
    convenience init(_ file: TemporaryFile? = nil, retention: Retention = Retention()) throws {
        let file = try file ?? .migrated()
        let sqlite = try SQLiteStore.open(DatabaseFile(path: file.path), retention: retention)
        try self.init(sqlite, door: SQLiteDoor(asBackendOf: file.path), file: file)
    }

    convenience init(_ postgres: PostgresStore) throws { try self.init(postgres, door: PostgresDoor(postgres.address)) }

    deinit { temporaryFile?.remove() }

    /// The store of a test that runs on a file alone.
    var sqlite: SQLiteStore { ports as! SQLiteStore }
    var file: TemporaryFile { temporaryFile! }
    /// The store of a test that runs on PostgreSQL alone.
    var postgres: PostgresStore { ports as! PostgresStore }

    func register(_ app: String, _ clientIDs: [String]) throws { try ports.register([AppClients(name: app, clientIDs: clientIDs)]) }

    /// Replaces the dead process by the next one.
    ///
    /// - Returns: when it can claim the previous process's rows, if they have been claimed twice at most. That is at once if it knows that
    ///   it is alone, else when the leases have ended.
    func restart(at now: Timestamp) throws -> Timestamp {
        // Other replicas work on the same rows of a server, so a claim is void only after its lease.
        guard let sqlite = ports as? SQLiteStore else { return now + Self.policy.lease(attempts: 2) }
        try sqlite.recover()
        return now
    }

    func run(_ sql: String, _ arguments: [SQLValue] = []) async throws { try await door.run(sql, arguments) }
    func rows(_ sql: String, _ arguments: [SQLValue] = []) async throws -> [[SQLValue]] { try await door.rows(sql, arguments) }

    func column(_ sql: String, _ arguments: [SQLValue] = []) async throws -> [SQLValue] {
        try await door.rows(sql, arguments).map { $0[0] }
    }

    func count(_ table: String) async throws -> Int64? { try await column("SELECT COUNT(*) FROM \(table)")[0].integer }
}

/// Values that no public table shows. The private tables have the same names in every store.
extension StoreUnderTest {
    var sealedTokens: Int64? { get async throws { try await count("credential WHERE sealed_token IS NOT NULL") } }

    /// Overwrites the published row of a user at a client, for states that the ports cannot produce yet.
    func publish(_ state: String, _ reason: String, changedAt: SQLValue, _ user: String = "user", client: String) async throws {
        try await run(
            """
            UPDATE credential SET state = ?, reason = ?, changed_at = ?
             WHERE user_id = ? AND client = (SELECT id FROM client WHERE client_id = ?)
            """,
            [.text(state), .text(reason), changedAt, .text(user), .text(client)]
        )
    }
}

extension Timestamp {
    /// The beginning of every test.
    static let start = Timestamp(milliseconds: 1_750_000_000_000)

    static func + (time: Timestamp, duration: Duration) -> Timestamp { time.advanced(by: duration) }
    static func - (time: Timestamp, duration: Duration) -> Timestamp { time.advanced(by: .zero - duration) }
}
