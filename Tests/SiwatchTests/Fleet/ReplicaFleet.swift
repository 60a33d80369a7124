// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import GRDB

/// Three siwatch on one schema of a server, each a process of its own in a folder of its own, with a road of its own to the server and a
/// name of its own at Apple's.
actor ReplicaFleet {
    static let size = 3
    /// The one whose wall clock can be set.
    private static let clocked = 2

    private struct Replica {
        let folder: WatchedFolder
        let road: RoadToServer
        let clock: SteppedClock?
        /// Nil while it is dead.
        var life: Life?
    }

    private struct Life {
        let process: ChildProcess
        let pages: OperationsPages
        let footprint: Footprint
    }

    private let server: PostgresServer
    private let looks: Backend
    private var replicas: [Replica] = []
    /// What all of them wrote who are dead.
    private(set) var words: [String] = []
    /// How each ended that was not killed.
    private(set) var ends: [String] = []
    private(set) var deaths = 0
    private(set) var freezes = 0
    private(set) var strikes: [FleetFault.Kind: Int] = [:]
    /// How often a replica said that the disk was full.
    private(set) var fullDisks = 0

    /// Starts them, and takes them down again whatever happens.
    ///
    /// - Parameter site: on that server, with a port for whoever watches.
    static func with<Result: Sendable>(
        on server: PostgresServer,
        _ site: Site,
        _ body: (ReplicaFleet) async throws -> Result
    ) async throws -> Result {
        let fleet = try await ReplicaFleet(on: server, site)
        do {
            try await fleet.start()
            let result = try await body(fleet)
            await fleet.takeDown()
            return result
        } catch {
            let last = await fleet.lastWords
            await fleet.takeDown()
            throw HarnessError("\(error)\n\(last)")
        }
    }

    /// What each has written last.
    private var lastWords: String {
        replicas.enumerated().map { index, replica in
            "replica \(index):\n" + (replica.life?.process.output ?? []).suffix(12).map { "  \($0)\n" }.joined()
        }
        .joined()
    }

    private init(on server: PostgresServer, _ site: Site) async throws {
        self.server = server
        looks = try Backend(site.schema!)
        for name in 0..<Self.size {
            let folder = try site.folder.copy()
            let road = try RoadToServer(server.folder)
            try folder.edit("host=\(server.folder.path)", "host=\(road.folder.path)")
            try folder.edit("\(site.apple.url)/", "\(site.apple.url)/callers/\(name)/")
            let clock = try await name == Self.clocked ? SteppedClock(in: folder) : nil
            replicas.append(Replica(folder: folder, road: road, clock: clock))
        }
    }

    private func start() async throws {
        for index in replicas.indices { try await start(index) }
    }

    private func start(_ index: Int) async throws {
        let process = try await replicas[index].folder.startDaemon(environment: replicas[index].clock?.environment ?? [:])
        replicas[index].life = Life(
            process: process,
            pages: try await OperationsPages(of: process),
            footprint: Footprint(of: process.identifier)
        )
    }

    private func takeDown() {
        for replica in replicas {
            replica.life?.process.signal(SIGKILL)
            replica.folder.remove()
        }
    }

    /// Stops them in order.
    ///
    /// - Returns: their exit codes.
    func stop() async -> [Int32] {
        var statuses: [Int32] = []
        for index in replicas.indices {
            guard let process = replicas[index].life?.process else { continue }
            process.signal(SIGTERM)
            statuses.append(await process.exit())
            bury(index)
        }
        return statuses
    }

    private func bury(_ index: Int) {
        words += replicas[index].life?.process.output ?? []
        replicas[index].life = nil
    }

    // MARK: Faults

    func strike(_ fault: FleetFault) async throws {
        strikes[fault.kind, default: 0] += 1
        switch fault {
        case .kill(let index):
            guard let process = replicas[index].life?.process else { return }
            process.signal(SIGKILL)
            deaths += 1
            await process.exit()
            bury(index)
        case .freeze(let index):
            await replicas[index].life?.process.freeze()
            freezes += 1
        case .endOfSession(let share):
            let sessions = try await looks.rows(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'siwatch' AND pid <> pg_backend_pid() ORDER BY pid"
            )
            guard !sessions.isEmpty else { return }
            let session: Int = sessions[Int(Double(sessions.count) * share)][0]
            _ = try await looks.rows("SELECT pg_terminate_backend(\(session))")
        case .restart:
            try server.restart()
        case .absence:
            server.takeDown()
            try await untilReady(false)
            try server.bringUp()
        case .cut(let index):
            replicas[index].road.condition = .closed
        case .darkness(let index, _):
            replicas[index].road.condition = .dark
        case .delay(let index, let delay):
            replicas[index].road.condition = .slow(delay)
        case .fullDisk:
            try await fillDisk()
        case .step(let offset):
            try replicas[Self.clocked].clock?.step(to: offset)
            try await untilReady(false, Self.clocked)
        }
    }

    /// Until somebody has met it, or there is nothing left to meet it with.
    private func fillDisk() async throws {
        server.isFull = true
        defer { server.isFull = false }
        let end = ContinuousClock.now + .seconds(5)
        while .now < end {
            for replica in replicas {
                guard let life = replica.life, life.process.exitStatus == nil else { continue }
                if (try? await life.pages.get("metrics"))?.contains("\nsiwatch_store_full 1") ?? false {
                    fullDisks += 1
                    return
                }
            }
        }
    }

    /// Ends all faults, and brings back who has died.
    func heal(after fault: FleetFault) async throws {
        if case .darkness(let index, isForGood: true) = fault { replicas[index].road.cut() }
        for replica in replicas {
            replica.road.condition = .open
            try replica.clock?.step(to: .zero)
            replica.life?.process.signal(SIGCONT)
        }
        if server.isAway { try server.restart() }
        // It may be recovering.
        _ = try await looks.int("SELECT 1")
        for index in replicas.indices {
            if let status = replicas[index].life?.process.exitStatus {
                ends.append("\(status): \(replicas[index].life?.process.output.last ?? "")")
                deaths += 1
                bury(index)
            }
            if replicas[index].life == nil { try await start(index) }
        }
    }

    // MARK: Looking

    /// Waits until all, or one of them, say that they are ready, or that they are not.
    func untilReady(_ isReady: Bool, _ only: Int? = nil) async throws {
        for (index, replica) in replicas.enumerated() where only == nil || only == index {
            guard let life = replica.life, life.process.exitStatus == nil else { continue }
            let answer = try? await life.pages.get("readyz", within: .seconds(60)) { ($0 == "ok\n") == isReady }
            // It may have ended meanwhile.
            guard (answer == "ok\n") == isReady || life.process.exitStatus != nil else {
                throw HarnessError("replica \(index) still says: \(answer ?? "nothing")")
            }
        }
    }

    /// Claims end now, and not only after a minute: those of the dead, and those of ten seconds ago, of which nobody heard.
    func endLostClaims() async throws {
        let dead = "claimed_by NOT IN (SELECT owner FROM replica WHERE seen_at > \(Self.now) - 3000)"
        let lost = "claimed_by IS NOT NULL AND (\(dead) OR due_at < \(Self.now) + 50000)"
        for table in ["notification_queue", "grant_queue", "revocation_queue", "revocation"] {
            try await looks.execute("UPDATE \(table) SET due_at = 0 WHERE \(lost)")
        }
    }

    private static let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

    /// I9: what each of them has taken since it was ready, and has not given back.
    var leaks: [String] {
        replicas.enumerated().compactMap { index, replica in
            replica.life.flatMap { life in
                Footprint(of: life.process.identifier).excess(over: life.footprint).map { "replica \(index): \($0)" }
            }
        }
    }

    /// I8: who has written a token or a code where it has no business.
    var betrayals: [String] {
        get throws {
            let words = words + replicas.flatMap { $0.life?.process.output ?? [] }
            let files = try replicas.flatMap { try $0.folder.filesWithTokens() }
            return files + words.filter { Array($0.utf8).holdsSimulatedToken }
        }
    }
}

/// What a process holds of the system.
private struct Footprint {
    let descriptors: Int
    let threads: Int

    init(of process: pid_t) {
        func count(_ folder: String) -> Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/\(folder)"))?.count ?? 0
        }
        descriptors = count("fd")
        threads = count("task")
    }

    /// A pool keeps connections to Apple for a while, and Dispatch threads.
    func excess(over before: Footprint) -> String? {
        guard descriptors > before.descriptors + 32 || threads > before.threads + 16 else { return nil }
        return "\(descriptors) descriptors after \(before.descriptors), \(threads) threads after \(before.threads)"
    }
}
