// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit
import Foundation
import NIOConcurrencyHelpers

/// A simulator, a folder with a configuration, and a backend: everything around a daemon, as real processes and files.
package struct Site: Sendable {
    package let apple: SimulatedApple
    package let folder: WatchedFolder
    package let backend: Backend
    package let schema: ServerSchema?
    private let told = NIOLockedValueBox(Ledger())

    /// Makes the tables of a site. Tests that hold siwatch's commands need no process of their own for it.
    @TaskLocal package static var migrate: @Sendable (WatchedFolder) async throws -> Void = { try await $0.complete("migrate") }

    /// Sets a site up, migrated and without a daemon, runs `body` and always takes the site down again.
    ///
    /// - Parameter tables: further TOML, by table, such as `["refresh": "interval = \"1s\""]`.
    package static func with(
        on database: SiteDatabase = .file,
        apple place: SimulatedApple.Place = .here,
        listen: String = "",
        _ tables: [String: String] = [:],
        _ body: (Site) async throws -> Void
    ) async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        try await with(folder, on: database, apple: place, listen: listen, tables, body)
    }

    /// Does the same in a folder that stays.
    package static func with<Result>(
        _ folder: WatchedFolder,
        on database: SiteDatabase = .file,
        apple place: SimulatedApple.Place = .here,
        listen: String = "",
        _ tables: [String: String] = [:],
        _ body: (Site) async throws -> Result
    ) async throws -> Result {
        try await SimulatedApple.with(in: folder.url, place) { apple in
            let schema: ServerSchema? =
                switch database {
                case .file: nil
                case .server(let server): try ServerSchema(on: server)
                }
            try folder.configure(apple: apple, on: schema, listen: listen, tables)
            if schema == nil, tables["database"] == nil, tables["encryption"] == nil {
                try await MigratedFiles.shared.copy(to: folder)
            } else {
                try await migrate(folder)
            }
            let backend = try backend(of: folder, schema)
            defer { try? backend.close() }
            return try await body(Site(apple: apple, folder: folder, backend: backend, schema: schema))
        }
    }

    private static func backend(of folder: WatchedFolder, _ schema: ServerSchema?) throws -> Backend {
        try schema.map(Backend.init) ?? Backend(databasePath: folder.databasePath)
    }

    package func anotherBackend() throws -> Backend { try Self.backend(of: folder, schema) }

    /// Configures another folder for the same simulator while `body` runs.
    package func withNeighbour(listen: String = "", _ body: (WatchedFolder) async throws -> Void) async throws {
        let neighbour = try WatchedFolder()
        defer { neighbour.remove() }
        try neighbour.configure(apple: apple, listen: listen)
        let keyFile = SimulatedApple.keyFile
        try FileManager.default.copyItem(at: folder.url.appending(path: keyFile), to: neighbour.url.appending(path: keyFile))
        try await body(neighbour)
    }

    @discardableResult
    package func daemon(environment: [String: String] = [:], _ body: (ChildProcess) async throws -> Void) async throws -> ChildProcess {
        try await folder.withDaemon(environment: environment) { daemon in
            try await body(daemon)
            return daemon
        }
    }

    // MARK: Rows that the backend writes and the ledger notes

    package var ledger: Ledger { told.withLockedValue { $0 } }

    /// Notes what siwatch was told in another way than by rows of the backend.
    package func note(_ change: (inout Ledger) -> Void) { told.withLockedValue { change(&$0) } }

    package func tell(_ signIns: [SignIn]) async throws {
        try await backend.insert(signIns)
        told.withLockedValue { $0.tell(signIns) }
    }

    package func tell(codesOf signIns: [SignIn]) async throws {
        try await backend.insert(
            codes: signIns.compactMap(CodeRow.init).map { row in
                var row = row
                row.grantedAt = nil
                return row
            }
        )
        told.withLockedValue { $0.tell(codesOf: signIns) }
    }

    /// Reports that people have deleted their accounts in the app.
    package func tell(leaving users: [String], at clientID: String) async throws {
        told.withLockedValue { $0.tell(leaving: users, at: .now()) }
        try await backend.insert(revocationsOf: users, at: clientID)
    }

    package func tell(_ notifications: some Collection<SignedNotification>) async throws {
        try await backend.insert(notifications: notifications.map(\.body))
        told.withLockedValue { $0.tell(notifications) }
    }

    /// - Parameter reason: the expected reason in the quarantine.
    package func tell(_ bodies: [String], rejectedAs reason: String) async throws {
        try await backend.insert(notifications: bodies)
        told.withLockedValue { $0.tell(rejected: bodies.count, as: reason) }
    }

    /// Notes events at Apple without telling siwatch.
    package func note(_ notifications: [SignedNotification]) { told.withLockedValue { $0.note(notifications) } }

    package func settle(_ signIns: [SignIn]) async throws {
        let before = try await backend.int("SELECT COUNT(*) FROM grant_log")
        try await tell(signIns)
        try await backend.until("SELECT COUNT(*) FROM grant_log", is: before + signIns.count)
    }

    package func audit() async throws -> Audit { try await Audit(of: backend, against: apple.send(ListUsers()).users, ledger) }
}
