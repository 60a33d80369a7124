// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation

/// What a part works with: a folder, a simulated Apple, and the siwatch processes run there. All of it goes when the part ends, however
/// it ends.
struct Workplace: Sendable {
    let folder: WatchedFolder
    let apple: SimulatedApple
    private let logLevel: String

    static let clientID = SimulatedApple.clientIDs[0]

    static func use<Result>(logLevel: String, _ body: (Workplace) async throws -> Result) async throws -> Result {
        let folder = try WatchedFolder(named: "siwatch-bench")
        defer { folder.remove() }
        let apple = try await SimulatedApple(in: folder.url)
        do {
            let place = Workplace(folder: folder, apple: apple, logLevel: logLevel)
            try place.configure()
            let result = try await body(place)
            await apple.stop()
            return result
        } catch {
            await apple.stop()
            throw error
        }
    }

    /// - Parameter refresh: what stands in the table of that name.
    func configure(refresh: String = "") throws {
        try folder.configure(apple: apple, ["log": "level = \"\(logLevel)\"", "refresh": refresh])
    }

    func withBackend<Result>(_ body: (Backend) async throws -> Result) async throws -> Result {
        let backend = try Backend(databasePath: folder.databasePath)
        // Whoever closes last writes the log back into the file.
        defer { try? backend.close() }
        return try await body(backend)
    }

    /// Runs the daemon while `body` does.
    func withDaemon<Result>(_ body: (ChildProcess) async throws -> Result) async throws -> Result {
        try await folder.withDaemon(body)
    }

    /// Creates the database, with the configured app in it.
    func migrate() async throws {
        try await folder.complete("migrate")
    }

    /// Lets new users sign in and siwatch take their credentials in, to be checked tomorrow.
    func makeCredentials(_ count: Int) async throws -> [SignIn] {
        say("  \(count) users sign in")
        try await migrate()
        var signIns: [SignIn] = []
        while signIns.count < count { signIns += try await apple.signIn(min(count - signIns.count, 5000)) }
        try await withBackend { [signIns] in try await $0.insert(signIns) }
        try await folder.complete("run", "--once")
        return signIns
    }

    /// Lets users end their consent.
    ///
    /// - Returns: what Apple posts, in the order of the users.
    func revokeConsent(of users: [String]) async throws -> [String] {
        var bodies: [String] = []
        while bodies.count < users.count {
            bodies += try await apple.notify("consent-revocations", users: Array(users[bodies.count...].prefix(1000))).map(\.body)
        }
        return bodies
    }

    /// Lets users switch off the forwarding of mail, which ends no sign-in.
    ///
    /// - Returns: what Apple posts, in the order of the users.
    func switchMail(of users: [String]) async throws -> [String] {
        var bodies: [String] = []
        while bodies.count < users.count {
            let some = Array(users[bodies.count...].prefix(1000))
            bodies += try await apple.notify("mail-forwarding", users: some, ["enabled": false]).map(\.body)
        }
        return bodies
    }
}
