// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import CredentialCore
import DaemonHarness
import Foundation
import PostgresStore
import SQLiteStore

/// The surroundings of a part: a folder, a simulated Apple, a database, and siwatch processes. All go when it ends, however it ends.
struct Workplace: Sendable {
    let folder: WatchedFolder
    let apple: SimulatedApple
    let schema: ServerSchema?

    static let clientID = SimulatedApple.clientIDs[0]

    static func use<Result>(on store: Store = .sqlite, _ body: (Workplace) async throws -> Result) async throws -> Result {
        let folder = try WatchedFolder(named: "siwatch-bench")
        defer { folder.remove() }
        // Longer than any part takes, because signing a new answer takes longer than all else.
        return try await SimulatedApple.with(in: folder.url, .process, answerReuse: .seconds(7200)) { apple in
            try await store.withDatabase { schema in try await body(Workplace(folder: folder, apple: apple, schema: schema).configured()) }
        }
    }

    /// Gives `body` the same Apple and app with another, empty database.
    func withNeighbour<Result>(on store: Store, _ body: (Workplace) async throws -> Result) async throws -> Result {
        let neighbour = try WatchedFolder(named: "siwatch-bench")
        defer { neighbour.remove() }
        let keyFile = SimulatedApple.keyFile
        try FileManager.default.copyItem(at: folder.url.appending(path: keyFile), to: neighbour.url.appending(path: keyFile))
        return try await store.withDatabase { schema in
            try await body(Workplace(folder: neighbour, apple: apple, schema: schema).configured())
        }
    }

    /// Gives `body` a copy with its own database, to use up. The original has no connections meanwhile.
    func withCopy<Result>(_ body: (Workplace) async throws -> Result) async throws -> Result {
        let copy = try folder.copy()
        defer { copy.remove() }
        guard let schema else {
            // Writing the copy to disk must not count.
            let file = try FileHandle(forUpdating: URL(filePath: copy.databasePath))
            try file.synchronize()
            try file.close()
            return try await body(Workplace(folder: copy, apple: apple, schema: nil).configured())
        }
        return try await BenchServer.withDatabase(copyOf: schema) { schema in
            try await body(Workplace(folder: copy, apple: apple, schema: schema).configured())
        }
    }

    private func configured() throws -> Self {
        try configure()
        return self
    }

    /// - Parameter refresh: the lines of the table `[refresh]`.
    func configure(refresh: String = "", _ others: [String: String] = [:]) throws {
        try folder.configure(apple: apple, on: schema, others.merging(["refresh": refresh]) { $1 })
    }

    func withBackend<Result>(_ body: (Backend) async throws -> Result) async throws -> Result {
        let backend = try schema.map(Backend.init) ?? Backend(databasePath: folder.databasePath)
        // The last connection to close writes the log back into the file.
        defer { try? backend.close() }
        return try await body(backend)
    }

    func withDaemon<Result>(_ body: (ChildProcess) async throws -> Result) async throws -> Result { try await folder.withDaemon(body) }

    func withReplicas<Result>(
        _ count: Int,
        beside others: [ChildProcess] = [],
        _ body: ([ChildProcess]) async throws -> Result
    ) async throws -> Result {
        guard others.count < count else { return try await body(others) }
        let isFirst = others.isEmpty
        let folder = isFirst ? folder : try folder.copy()
        defer { if !isFirst { folder.remove() } }
        return try await folder.withDaemon { try await withReplicas(count, beside: others + [$0], body) }
    }

    func migrate() async throws { try await folder.complete("migrate") }

    /// Lets new users sign in, and siwatch store their credentials, with the first check due tomorrow.
    func makeCredentials(_ count: Int) async throws -> [SignIn] {
        let signIns = try await signIn(count)
        try await takeIn(signIns)
        return signIns
    }

    func signIn(_ count: Int) async throws -> [SignIn] {
        say("  \(count) users sign in")
        var signIns: [SignIn] = []
        while signIns.count < count { signIns += try await apple.signIn(min(count - signIns.count, 5000)) }
        return signIns
    }

    func takeIn(_ signIns: [SignIn]) async throws {
        try await migrate()
        try await withBackend { try await $0.insert(signIns) }
        try await folder.complete("run", "--once")
        try await vacuum()
    }

    /// Vacuums now, because the server would do it by itself during the measurement. Does nothing to a file.
    func vacuum() async throws {
        guard schema != nil else { return }
        try await withBackend { try await $0.execute("VACUUM ANALYZE") }
    }

    /// Lets something happen to users. Mail that is switched off ends no sign-in.
    ///
    /// - Returns: Apple's notifications, in the order of the users.
    func notify(_ event: some PeopleEvent, _ users: [String]) async throws -> [String] {
        var bodies: [String] = []
        while bodies.count < users.count {
            bodies += try await apple.notify(event, users: Array(users[bodies.count...].prefix(1000))).map(\.body)
        }
        return bodies
    }

    /// Opens the store with the daemon's own code. The daemon does not run meanwhile.
    func openStore() throws -> any CredentialStore {
        let store: any CredentialStore =
            try schema.map { try PostgresStore.open(PostgresAddress($0.url, schema: $0.name)) }
            ?? SQLiteStore.open(DatabaseFile(path: folder.databasePath))
        try store.register([AppClients(name: "example", clientIDs: SimulatedApple.clientIDs)])
        return store
    }

    func size() async throws -> Int {
        guard schema != nil else { return try FileManager.default.attributesOfItem(atPath: folder.databasePath)[.size] as? Int ?? 0 }
        return try await withBackend { try await $0.int("SELECT pg_database_size(current_database())") }
    }
}

extension WorkStore {
    func claimDue(_ count: Int, at now: Timestamp) async throws -> [DueCredential] {
        try await claimDueCredentials(
            of: "example",
            upTo: count,
            firstChecks: count,
            at: now,
            policy: RefreshPolicy(),
            preferring: [],
            quotas: [:]
        )
    }
}

/// The kernel's records about a process.
struct ProcessUsage: Sendable {
    /// Processor time since the process began, in its own code and in the kernel.
    let processorTime: Duration
    /// Bytes that the process wrote since it began, to any file: here the database, its log, and the log lines.
    let written: Int
    /// Resident memory in bytes, and its part without a file behind it.
    let resident, anonymous: Int

    init(of process: ChildProcess) throws {
        let folder = "/proc/\(process.identifier)"
        // Fields of proc_pid_stat(5) count from 1. The second is a name that may hold spaces.
        let stat = try String(contentsOfFile: "\(folder)/stat", encoding: .utf8)
        let fields = (stat.split(separator: ")").last ?? "").split(separator: " ")
        guard fields.count > 12, let user = Int(fields[14 - 3]), let system = Int(fields[15 - 3]) else {
            throw HarnessError("\(folder)/stat cannot be read")
        }
        processorTime = .seconds(Double(user + system) / Double(sysconf(Int32(_SC_CLK_TCK))))

        written = try Self.number("wchar", in: "\(folder)/io")
        resident = try Self.number("VmRSS", in: "\(folder)/status") * 1024
        anonymous = try Self.number("RssAnon", in: "\(folder)/status") * 1024
    }

    /// The process's share of one core while time passes, and its usage at the end.
    static func share(
        of process: ChildProcess,
        after pause: Duration,
        during time: Duration
    ) async throws -> (share: Double, ProcessUsage) {
        try await Task.sleep(for: pause)
        let before = try ProcessUsage(of: process)
        let start = ContinuousClock.now
        try await Task.sleep(for: time)
        let after = try ProcessUsage(of: process)
        return ((after.processorTime - before.processorTime) / (ContinuousClock.now - start), after)
    }

    private static func number(_ name: String, in file: String) throws -> Int {
        let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
        let words = lines.first { $0.hasPrefix("\(name):") }?.split(whereSeparator: \.isWhitespace) ?? []
        guard words.count > 1, let number = Int(words[1]) else { throw HarnessError("\(file) says nothing of \(name)") }
        return number
    }

    var memory: String { "\(megabytes(resident)) (\(megabytes(anonymous)) anonymous)" }
}

func megabytes(_ bytes: Int) -> String { "\((Double(bytes) / 1_048_576).rounded(to: 1)) MiB" }
