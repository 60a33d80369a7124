// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Testing

// What the trait of the running test has set up.
var site: Site { SiteTrait.scene.site! }
var daemon: ChildProcess { SiteTrait.scene.daemon! }
/// Of a daemon that listens.
var pages: OperationsPages { SiteTrait.scene.pages! }
var door: Door { SiteTrait.scene.door! }
var receiver: HookReceiver { SiteTrait.scene.receiver! }
var server: PostgresServer { SiteTrait.scene.server! }

/// Sets a site up for a test, and takes it down afterwards. A test with several databases runs once on each.
struct SiteTrait: TestTrait, TestScoping {
    fileprivate struct Scene: Sendable {
        var site: Site?
        var daemon: ChildProcess?
        var pages: OperationsPages?
        var door: Door?
        var receiver: HookReceiver?
        var server: PostgresServer?
    }

    @TaskLocal fileprivate static var scene: Scene = Scene()

    var databases: [SiteDatabase] = [.file]
    var listen = ""
    var tables: [String: String] = [:]
    /// Whether a daemon works on the site.
    var runs = false
    /// Starts a server that only this test has.
    var makeServer: (@Sendable () throws -> PostgresServer)?
    /// The table of the door for backends, in a folder that holds the token.
    var door: (@Sendable (WatchedFolder) throws -> [String: String])?
    /// The TOML of a delivery to a receiver that listens.
    var delivery: String?

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        for database in databases {
            let named = IssueHandlingTrait.compactMapIssues { issue in
                var issue = issue
                issue.comments.append("on \(database)")
                return issue
            }
            try await named.provideScope(for: test, testCase: testCase) {
                do {
                    try await Site.$migrate.withValue({ try await $0.succeed("migrate") }) { try await setUp(on: database, function) }
                } catch {
                    // A failed `#require` has recorded its issue. The other database is tried all the same.
                    if !(error is ExpectationFailedError) { Issue.record(error, sourceLocation: test.sourceLocation) }
                }
            }
        }
    }

    private func setUp(on database: SiteDatabase, _ function: @Sendable () async throws -> Void) async throws {
        let server = try makeServer?()
        defer { server?.stop() }
        let (scene, place) = (Scene(server: server), server.map { SiteDatabase.server($0) } ?? database)
        guard delivery != nil else { return try await setUp(scene, on: place, port: 0, function) }
        let receiver = HookReceiver()
        try await receiver.serve { port in try await setUp(Scene(receiver: receiver, server: server), on: place, port: port, function) }
    }

    private func setUp(_ scene: Scene, on database: SiteDatabase, port: Int, _ function: @Sendable () async throws -> Void) async throws {
        let folder = try WatchedFolder()
        defer { folder.remove() }
        var (scene, tables) = (scene, tables)
        if let door { tables.merge(try door(folder)) { $1 } }
        if let delivery { tables.merge(try Hook.table(in: folder, port: port, delivery)) { $1 } }
        try await Site.with(folder, on: database, listen: listen, tables) { site in
            scene.site = site
            if runs {
                try await site.daemon { daemon in
                    scene.daemon = daemon
                    if !listen.isEmpty { scene.pages = try await OperationsPages(of: daemon) }
                    if door != nil { scene.door = try await Door(of: daemon, in: folder) }
                    try await Self.$scene.withValue(scene) { try await function() }
                }
            } else {
                try await Self.$scene.withValue(scene) { try await function() }
            }
        }
    }
}

extension Trait where Self == SiteTrait {
    static var site: Self { Self() }
    static var daemon: Self { Self(runs: true) }

    static func site(on database: SiteDatabase = .file, listen: String = "", _ tables: [String: String] = [:]) -> Self {
        Self(databases: [database], listen: listen, tables: tables)
    }

    static func site(onEach databases: [SiteDatabase], listen: String = "", _ tables: [String: String] = [:]) -> Self {
        Self(databases: databases, listen: listen, tables: tables)
    }

    /// The same with a daemon at work.
    static func daemon(on database: SiteDatabase = .file, listen: String = "", _ tables: [String: String] = [:]) -> Self {
        Self(databases: [database], listen: listen, tables: tables, runs: true)
    }

    static func daemon(onEach databases: [SiteDatabase], listen: String = "", _ tables: [String: String] = [:]) -> Self {
        Self(databases: databases, listen: listen, tables: tables, runs: true)
    }

    /// A site on a server of its own, which the test may take down.
    static func server(
        canFill: Bool = false,
        _ settings: String...,
        listen: String = "",
        tables: [String: String] = [:],
        hasDoor: Bool = false,
        runs: Bool = false
    ) -> Self {
        var trait: Self = hasDoor ? .door(listen: listen, runs: runs) : Self(listen: listen, tables: tables, runs: runs)
        trait.makeServer = { try PostgresServer(canFill: canFill, settings: settings) }
        return trait
    }

    /// A site with a door for backends, and a daemon that serves there.
    static func door(
        onEach databases: [SiteDatabase] = [.file],
        at address: String = "127.0.0.1:0",
        rights: [String] = ["notify", "sign_in", "delete", "read"],
        _ more: String = "",
        listen: String = "",
        runs: Bool = true
    ) -> Self {
        Self(databases: databases, listen: listen, runs: runs, door: { try Door.table(in: $0, listen: address, rights: rights, more) })
    }

    /// A site that delivers to a receiver, and a daemon at work.
    static func receiver(
        onEach databases: [SiteDatabase] = SiteDatabase.allCases,
        listen: String = "",
        _ more: String = "types = [\"credential.authorized\"]",
        tables: [String: String] = [:],
        runs: Bool = true
    ) -> Self { Self(databases: databases, listen: listen, tables: tables, runs: runs, delivery: more) }
}
