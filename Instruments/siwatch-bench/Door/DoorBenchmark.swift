// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import AsyncHTTPClient
import CredentialCore
import DaemonHarness
import Foundation
import GRDB
import NIOConcurrencyHelpers
import NIOCore
import NIOHTTP1

/// What backends and Apple get from the HTTP door, and receivers from webhooks.
struct DoorBenchmark: Sendable {
    let notifications: Int
    let codes: Int
    let clients: Int

    private static let connections = 64
    /// How long Apple takes for each answer, because an answer at once would hide behind it.
    private static let delayOfApple = Duration.milliseconds(100)
    /// How often each notification is queued to keep the daemon busy. The first is news, the others are duplicates.
    private static let fillings = 12
    private static let posts = 300
    private static let idleTime = Duration.seconds(15)

    func run() async throws -> Section {
        say("HTTP door and webhooks")
        var rows: [Section.Row] = []
        rows += try await Workplace.use { place in
            let users = try await place.makeCredentials(notifications).map(\.userID)
            say("  Apple signs \(notifications) notifications")
            let bodies = try await place.notify(RevokeConsent(), users)
            return try await intake(bodies, place) + deliveries(place)
        }
        rows += try await Workplace.use { try await signIns($0) + waiting($0) }
        return Section(
            "HTTP door and webhooks, synchronous=FULL (× = siwatch ÷ what stands in the line)",
            rows,
            arguments: "--only door --notifications \(notifications) --codes \(codes) --waiting \(clients)"
        )
    }

    // MARK: Apple's notifications

    private func intake(_ bodies: [String], _ place: Workplace) async throws -> [Section.Row] {
        try place.configure(Door.table(in: place.folder))
        let example = try await FastAPIExample.answersPerSecond(to: bodies.suffix(2_000), Self.connections)
        say("  Apple posts \(bodies.count) notifications")
        let rate = try await place.withCopy { place in
            try place.configure(Door.table(in: place.folder))
            return try await place.withBackend { backend in
                try await place.withDaemon { daemon in
                    let end = try await backend.counter(Workplace.settled) + bodies.count
                    let rate = try await posts(to: daemon, in: place).answersPerSecond(to: bodies)
                    while try await backend.counter(Workplace.settled) < end { try await Task.sleep(for: .milliseconds(20)) }
                    return rate
                }
            }
        }
        let busy = try await busyLatencies(bodies, place)
        return [
            .ours("notifications posted over \(Self.connections) connections, until 200 and so on disk", rate),
            .limit(Limit("Examples/fastapi, which inserts them unverified", example), of: rate),
            .init("one at a time while the daemon works off a full queue, p50 / p99 of \(busy.count)", busy.figure(0.5, 0.99)),
        ]
    }

    private func posts(to daemon: ChildProcess, in place: Workplace) async throws -> PostingConnections {
        let door = try await Door(of: daemon, in: place.folder)
        guard let port = door.url.split(separator: ":").last.flatMap({ UInt16($0) }) else { throw HarnessError("no port: \(door.url)") }
        return PostingConnections(port: port, path: "/apple/notifications", count: Self.connections)
    }

    /// How long one post takes while at least as many rows wait as there are notifications.
    private func busyLatencies(_ bodies: [String], _ place: Workplace) async throws -> [Duration] {
        try await place.withCopy { place in
            try place.configure(Door.table(in: place.folder))
            return try await place.withBackend { backend in
                for _ in 0..<Self.fillings { try await backend.insert(notifications: bodies) }
                return try await place.withDaemon { daemon in
                    let door = try await Door(of: daemon, in: place.folder)
                    var latencies: [Duration] = []
                    for body in bodies.prefix(Self.posts) {
                        guard try await backend.int("SELECT MAX(id) - MIN(id) FROM notification_queue") >= bodies.count else { break }
                        let start = ContinuousClock.now
                        let answer = try await door.post("/apple/notifications", bytes: Data(body.utf8))
                        latencies.append(ContinuousClock.now - start)
                        guard answer.status == 200 else { throw HarnessError("the intake answered \(answer.status)") }
                    }
                    return latencies
                }
            }
        }
    }

    // MARK: Webhooks

    /// Records all changes first, and then delivers them.
    private func deliveries(_ place: Workplace) async throws -> [Section.Row] {
        let receiver = HookReceiver()
        return try await receiver.serve { port in
            let hook = try Hook.table(in: place.folder, port: port)
            let arrivals = Arrivals()
            receiver.answer(arrivals.take)
            try place.configure(hook)
            // A delivery begins with the first change after the start of its first siwatch.
            try await place.withDaemon { _ in }
            try place.configure()
            let users = try await place.withBackend {
                try await $0.rows("SELECT user_id FROM credential_state").map { $0["user_id"] as String }
            }
            let bodies = try await place.notify(SwitchForwarding(on: false), Array(users.prefix(notifications)))
            try await place.withBackend { try await $0.insert(notifications: bodies) }
            try await place.folder.complete("run", "--once")
            try place.configure(hook)
            say("  siwatch delivers \(bodies.count) changes")
            try await place.withDaemon { _ in
                while arrivals.count < bodies.count { try await Task.sleep(for: .milliseconds(20)) }
            }
            return [.ours("webhooks to one receiver", arrivals.perSecond)]
        }
    }

    private final class Arrivals: Sendable {
        private let state = NIOLockedValueBox((count: 0, first: ContinuousClock.now, last: ContinuousClock.now))

        var count: Int { state.withLockedValue(\.count) }
        var perSecond: Double { state.withLockedValue { Double($0.count - 1) / ($0.last - $0.first).inSeconds } }

        func take(_: HookReceiver.Hook) -> Int {
            state.withLockedValue { state in
                state.last = .now
                if state.count == 0 { state.first = state.last }
                state.count += 1
            }
            return 204
        }
    }

    // MARK: Sign-ins and changes

    private func signIns(_ place: Workplace) async throws -> [Section.Row] {
        try await place.migrate()
        try place.configure(Door.table(in: place.folder))
        return try await place.withDaemon { daemon in
            let door = try await Door(of: daemon, in: place.folder)
            say("  \(codes) people sign in, one after the other")
            try await place.apple.script(.delay(Self.delayOfApple).at(.token))
            var added: [Duration] = []
            for signIn in try await place.apple.signInByCode(codes + 1) {
                let start = ContinuousClock.now
                let body: [String: any Sendable] = ["client_id": signIn.clientID, "code": signIn.code ?? "", "wait": 10]
                let answer = try await door.post("/v1/sign-ins", body)
                added.append(ContinuousClock.now - start - Self.delayOfApple)
                guard answer.status == 200 else { throw HarnessError("a sign-in ended with \(answer.status): \(answer.text)") }
            }
            // The first one connects to Apple.
            added.removeFirst()
            return [
                .init(
                    "POST /v1/sign-ins, beyond the \(Self.delayOfApple.inMilliseconds) that Apple takes, p50",
                    added.percentile(0.5).inMilliseconds
                ),
                .init("the same, p99 of \(added.count)", added.percentile(0.99).inMilliseconds),
            ]
        }
    }

    /// The daemon's share of a core while nothing happens, without clients and with them.
    private func waiting(_ place: Workplace) async throws -> [Section.Row] {
        try await place.withDaemon { daemon in
            let door = try await Door(of: daemon, in: place.folder)
            say("  \(clients) clients wait for changes")
            func idleShare() async throws -> String {
                try await ProcessUsage.share(of: daemon, after: .seconds(3), during: Self.idleTime).share.percent
            }
            let alone = try await idleShare()
            let position = try await door.get("/v1/changes")["next"] ?? "0-0"
            var configuration = HTTPClient.Configuration()
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = clients
            let http = HTTPClient(configuration: configuration)
            let beside = try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<clients {
                    group.addTask {
                        while !Task.isCancelled {
                            var request = HTTPClientRequest(url: "\(door.url)/v1/changes?after=\(position)&wait=25")
                            request.headers.add(name: "authorization", value: "Bearer \(door.token ?? "")")
                            _ = try? await http.execute(request, timeout: .seconds(60)).body.collect(upTo: 1 << 20)
                        }
                    }
                }
                let share = try await idleShare()
                group.cancelAll()
                return share
            }
            try await http.shutdown()
            return [.init("share of one core, idle", alone), .init("share of one core while \(clients) clients wait for changes", beside)]
        }
    }
}

/// The endpoint that a team would write: Examples/fastapi inserts each body into `notification_queue`, on a database of its own.
enum FastAPIExample {
    static func answersPerSecond(to bodies: [String], _ connections: Int) async throws -> Limit.Reading {
        let folder = try WatchedFolder(named: "siwatch-bench")
        defer { folder.remove() }
        return try await Site.with(folder) { site in
            let server = try ChildProcess(
                URL(filePath: "/usr/bin/env"),
                ["python3", "-m", "uvicorn", "--app-dir", "Examples/fastapi", "app_sql:app", "--port", "0", "--no-access-log"],
                environment: [
                    "APP": "example",
                    "CLIENT_ID": Workplace.clientID,
                    "DATABASE_URL": "sqlite+aiosqlite:///file:\(site.folder.databasePath)?mode=rw&uri=true",
                ]
            )
            guard let line = await server.line(containing: "running on http"), let port = line.firstMatch(of: /:([0-9]+)/) else {
                return .unknown(
                    "needs fastapi, uvicorn, sqlalchemy[asyncio] and aiosqlite of the Python Package Index"
                )
            }
            let posting = PostingConnections(port: UInt16(port.1) ?? 0, path: "/apple/notifications", count: connections)
            let rate = try await posting.answersPerSecond(to: bodies)
            server.signal(SIGTERM)
            await server.exit()
            return .perSecond(rate)
        }
    }
}
