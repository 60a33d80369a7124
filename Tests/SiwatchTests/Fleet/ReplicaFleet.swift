// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import DaemonHarness
import Foundation
import GRDB

/// Three siwatch on one schema of a server. Each is a process with its own folder, its own road to the server and its own name at Apple.
actor ReplicaFleet {
    static let size = 3
    static let clocked = 2

    struct Replica {
        let folder: WatchedFolder
        let road: RoadToServer
        let clock: SteppedClock?
        /// Nil while the replica is dead.
        var life: Life?
        /// Its name when a fault last struck it, and since when it is frozen or cut off from the server.
        var name = ""
        var apartSince: ContinuousClock.Instant?
        var isFrozen = false
    }

    struct Life {
        let process: ChildProcess
        let pages: OperationsPages
        let footprint: Footprint

        /// Whether it has ever asked Apple.
        var hasAskedApple: Bool { process.output.contains { $0.contains(#""event":"lane_taken""#) && $0.contains(#""lane":"example""#) } }
    }

    let server: PostgresServer
    let looks: Backend
    private let secrets: FleetSecrets
    var replicas: [Replica] = []
    /// The faults since all was well, and whether they have been healed.
    var raging: [FleetFault] = []
    var isHealed = false
    var history = FleetHistory()

    /// Starts the replicas of a site with a port for operators, runs `body`, and always takes them down again.
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

    private var lastWords: String {
        replicas.enumerated().map { index, replica in
            "replica \(index):\n" + (replica.life?.process.output ?? []).suffix(12).map { "  \($0)\n" }.joined()
        }
        .joined()
    }

    private init(on server: PostgresServer, _ site: Site) async throws {
        self.server = server
        looks = try Backend(site.schema!)
        secrets = try FleetSecrets(of: site)
        for name in 0..<Self.size {
            let folder = try site.folder.copy()
            let road = try RoadToServer(server.folder)
            try folder.edit("host=\(server.folder.path)", "host=\(road.folder.path)")
            try folder.edit("\(site.apple.url)/", "\(site.apple.url)/callers/\(name)/")
            let clock = try await name == Self.clocked ? SteppedClock(in: folder) : nil
            replicas.append(Replica(folder: folder, road: road, clock: clock))
        }
    }

    private func start() async throws { for index in replicas.indices { try await start(index) } }

    func start(_ index: Int) async throws {
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

    /// Stops the replicas in order, and returns a sentence for each error.
    func stop() async throws -> [String] {
        for index in replicas.indices {
            guard let process = replicas[index].life?.process else { continue }
            weigh(index)
            process.signal(SIGTERM)
            let status = await process.exit()
            if status != 0 { history.findings.append("replica \(index) stopped with \(status)") }
            bury(index)
        }
        let files = try replicas.flatMap { try $0.folder.filesWithTokens() }.map { "I8: a token stands in \($0)" }
        let words = server.log.split(separator: "\n").filter { secrets.areIn(String($0)) }.map { "I8: the server says: \($0)" }
        return history.findings + files + words
    }

    func bury(_ index: Int) {
        for line in replicas[index].life?.process.output ?? [] where secrets.areIn(line) {
            history.findings.append("I8: replica \(index) says: \(line)")
        }
        replicas[index].life = nil
    }

    // MARK: Checks

    /// I8 and I9: the pages of the living replicas for operators, and their footprints.
    func lookAtProcesses() async throws -> [String] {
        for index in replicas.indices {
            weigh(index)
            guard replicas[index].apartSince == nil, let life = replicas[index].life, life.process.exitStatus == nil else { continue }
            if try await secrets.areIn(life.pages.get("metrics")) {
                history.findings.append("I8: replica \(index) has a secret in its metrics")
            }
        }
        return history.findings
    }

    /// I9: the resources that a process has taken since it was ready and has not given back.
    func weigh(_ index: Int) {
        guard let life = replicas[index].life, life.process.exitStatus == nil else { return }
        let footprint = Footprint(of: life.process.identifier)
        if footprint.memory > history.largest?.memory ?? 0 { history.largest = footprint }
        if let excess = footprint.excess(over: life.footprint) { history.findings.append("I9: replica \(index) holds \(excess)") }
    }

    /// The replica that asks Apple; nil while none does.
    var owner: Int? {
        get async throws {
            let row = try await looks.rows(
                "SELECT replica FROM lane JOIN replica USING (owner) WHERE app <> '' AND until > \(Self.now)"
            ).first
            return row.flatMap { row in replicas.firstIndex { $0.life.map { (row[0] as String).contains(Self.mark(of: $0)) } ?? false } }
        }
    }

    /// The name of a replica on its claims and lanes; empty while it is dead.
    func name(of index: Int) async throws -> String {
        guard let life = replicas[index].life else { return "" }
        return try await looks.rows("SELECT owner FROM replica WHERE replica LIKE '%\(Self.mark(of: life))%'").first?[0] ?? ""
    }

    private static func mark(of life: Life) -> String { "\"processID\":\(life.process.identifier)," }

    /// Waits until all replicas, or one of them, report that they are ready, or that they are not.
    func untilReady(_ isReady: Bool, _ only: Int? = nil, within limit: Duration = .seconds(60)) async throws {
        for (index, replica) in replicas.enumerated() where only == nil || only == index {
            guard let life = replica.life, life.process.exitStatus == nil else { continue }
            let answer = try? await life.pages.get("readyz", within: limit) { ($0 == "ok\n") == isReady }
            // It may have ended meanwhile.
            guard (answer == "ok\n") == isReady || life.process.exitStatus != nil else {
                throw HarnessError("replica \(index) still says: \(answer ?? "nothing")")
            }
        }
    }

    /// Ends lost claims now and not only after a minute: claims of dead replicas, and claims of ten seconds ago without a result.
    func endLostClaims() async throws {
        let dead = "claimed_by NOT IN (SELECT owner FROM replica WHERE seen_at > \(Self.now) - 3000)"
        let lost = "claimed_by IS NOT NULL AND (\(dead) OR due_at < \(Self.now) + 50000)"
        for table in ["notification_queue", "grant_queue", "revocation_queue", "revocation"] {
            try await looks.execute("UPDATE \(table) SET due_at = 0 WHERE \(lost)")
        }
    }

    static let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
}
