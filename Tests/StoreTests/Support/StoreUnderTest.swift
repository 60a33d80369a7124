// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A new store and its two sides: the ports, as the daemon holds them, and SQL, as backends and operators write it.
///
/// It knows three clients in two apps: `app` and `web` of `example`, and `elsewhere` of `other`.
final class StoreUnderTest: Sendable {
    let ports: any CredentialStore
    let door: any SQLDoor
    private let registerApp: @Sendable (_ name: String, _ clientIDs: [String]) throws -> Void
    private let restartProcess: @Sendable (_ now: Timestamp) throws -> Timestamp
    private let tearDown: @Sendable () -> Void

    init(
        ports: any CredentialStore,
        door: any SQLDoor,
        register: @escaping @Sendable (_ name: String, _ clientIDs: [String]) throws -> Void,
        restart: @escaping @Sendable (_ now: Timestamp) throws -> Timestamp,
        tearDown: @escaping @Sendable () -> Void
    ) throws {
        self.ports = ports
        self.door = door
        registerApp = register
        restartProcess = restart
        self.tearDown = tearDown
        try self.register("example", ["app", "web"])
        try self.register("other", ["elsewhere"])
    }

    deinit {
        tearDown()
    }

    /// Takes an app of the configuration in.
    func register(_ app: String, _ clientIDs: [String]) throws {
        try registerApp(app, clientIDs)
    }

    /// The process has died, and the next one is there.
    ///
    /// - Returns: when it can claim what the other had, if that is not claimed more than twice: at once where it knows that it is alone, and
    ///   else when the leases have ended.
    func restart(at now: Timestamp) throws -> Timestamp {
        try restartProcess(now)
    }

    func run(_ sql: String, _ arguments: [SQLValue] = []) async throws {
        try await door.run(sql, arguments)
    }

    func rows(_ sql: String, _ arguments: [SQLValue] = []) async throws -> [[SQLValue]] {
        try await door.rows(sql, arguments)
    }

    /// The rows of a query of one column.
    func column(_ sql: String, _ arguments: [SQLValue] = []) async throws -> [SQLValue] {
        try await door.rows(sql, arguments).map { $0[0] }
    }

    func count(_ table: String) async throws -> Int64? {
        try await column("SELECT COUNT(*) FROM \(table)")[0].integer
    }
}
