// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// A new store with its two sides: the ports for the daemon, and SQL for backends and operators.
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
        (self.ports, self.door) = (ports, door)
        registerApp = register
        restartProcess = restart
        self.tearDown = tearDown
        try self.register("example", ["app", "web"])
        try self.register("other", ["elsewhere"])
    }

    deinit { tearDown() }
    func register(_ app: String, _ clientIDs: [String]) throws { try registerApp(app, clientIDs) }

    /// Replaces the dead process by the next one.
    ///
    /// - Returns: when it can claim the previous process's rows, if they have been claimed twice at most. That is at once if it knows that
    ///   it is alone, else when the leases have ended.
    func restart(at now: Timestamp) throws -> Timestamp { try restartProcess(now) }
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

extension Duration {
    static func minutes(_ count: Int) -> Duration { .seconds(60 * count) }
    static func hours(_ count: Int) -> Duration { .minutes(60 * count) }
    static func days(_ count: Int) -> Duration { .hours(24 * count) }
}
