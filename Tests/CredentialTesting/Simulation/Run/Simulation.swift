// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Some days of one daemon and its Apple, made from a seed. The same seed makes the same days.
///
/// The real handlers, writer and store run over SQLite in memory, or over PostgreSQL, on a clock that the simulation turns. One thing
/// happens at a time, and the seed chooses it: a person signs in or leaves, a notification comes late, twice or never, a lane claims, Apple
/// answers, the writer commits a batch, the process dies between two calls of a port. After each step the simulation compares the tables
/// with the rules.
///
/// First comes trouble, then calm. After some intervals of calm siwatch must know the whole truth.
package struct Simulation {
    package struct Report: Sendable {
        package var seed: UInt64
        package var repeatLine: String
        package var violation: Violation?
        package var steps = 0
        package var requests = 0
        package var answers = 0
        /// A digest of the whole history, in order.
        package var digest: UInt64 = 0
        package var tally: [Situation: Int] = [:]
        package var tail: [String] = []
    }

    let plan: Plan
    let world: SimulatedWorld
    let database: any SimulatedDatabase
    let seed: UInt64
    let bug: PlantedBug?
    var generator: SeededGenerator
    var asides: SeededGenerator
    var process: SimulatedProcess
    var inspector: Inspector
    var people: [Person] = []
    /// The rows that will still arrive, with their times.
    var agenda: [(at: Timestamp, delivery: Delivery)] = []
    var flights: [Flight] = []
    /// When an app last moved to another team.
    var transferredAt: Timestamp?
    /// Claimed work without a result, and settlements that wait for the writer.
    var claimed: [ClaimedBatch] = []
    var waiting: [[Settlement]] = []
    var steps = 0
    /// The apps that have had their incident at Apple.
    var struck: Set<String> = []
    /// Whether the run has had its import of many.
    var hasImported = false
    /// The files that operators import, and the import that an operator takes back.
    var files: [ImportedFile] = []
    var undo: String?
    var backup: Backup?
    /// By app, what siwatch once wrote, and where somebody has put it back, what it had written last.
    var olderLimits: [String: [DatabaseValue]] = [:]
    var olderBreakers: [String: [DatabaseValue]] = [:]
    var replays: [String: (older: [DatabaseValue], newer: [DatabaseValue])] = [:]
    /// When siwatch last asked about an app with an open breaker, by Apple's clock.
    var lastProbes: [SimulatedApp: Timestamp] = [:]
    /// The client that operators have taken out of the configuration, and when.
    var dropped: (clientID: String, at: Timestamp)?
    /// When a user last came back.
    var returnedAt = Timestamp.earliest
    /// Whether no user comes back any more, so that siwatch can know all by the end.
    var isOver = false

    enum Delivery {
        case post(Int)
        case grant(ScriptedApple.SignIn, address: String?)
        case code(CodeRow)
        case request(ReferenceModel.RequestRow)
        case passwordChange(CredentialID)
        case signIn(CredentialID)
    }

    enum ClaimedBatch {
        case notifications(ArraySlice<ClaimedNotification>)
        case grants([ClaimedGrant])
        case code(ClaimedCode)
    }

    package static func run(seed: UInt64, on databases: SimulatedDatabases = .memory, bug: PlantedBug? = nil) async -> Report {
        do {
            var plan = Plan(seed: seed)
            bug?.prepare(&plan)
            var simulation = try await Simulation(seed: seed, plan: plan, on: databases.take(), bug: bug)
            do {
                try await simulation.run()
            } catch {
                simulation.world.report(Violation(.nothingIsStuck, "the process cannot go on: \(error)"))
                await simulation.abandon()
            }
            try simulation.database.release()
            var report = simulation.report
            report.repeatLine += databases.option
            return report
        } catch {
            // A report and no crash, because other tests run in the same process.
            return Report(seed: seed, repeatLine: "make simulate SEED=\(seed)\(databases.option)", failure: error)
        }
    }

    init(seed: UInt64, plan: Plan, on database: any SimulatedDatabase, bug: PlantedBug? = nil) async throws {
        (self.seed, self.plan, self.database, self.bug) = (seed, plan, database, bug)
        generator = SeededGenerator(seed: ~seed)
        asides = SeededGenerator(seed: seed ^ StableHash("asides").value)
        let start = SimulatedTime.start
        world = SimulatedWorld(
            SimulatedWorld.State(
                now: start,
                apple: ScriptedApple(apps: plan.apps, revokesAlone: plan.revokesAlone),
                model: ReferenceModel(apps: plan.apps, maxRequestsPerHour: plan.revocationLimit.maxPerHour, startedAt: start),
                ledger: CallLedger(interval: SimulatedProcess.policy.interval),
                ring: PlainRing([PlainSealer.onlyKey], others: plan.hasOtherReplica ? [[PlainSealer.onlyKey]] : [])
            )
        )
        process = try await SimulatedProcess(plan, without: nil, on: database, in: world, bug: bug)
        inspector = Inspector()
        people = (0..<plan.users).map { number in
            Person(
                user: "user\(number)",
                app: plan.apps[number % plan.apps.count],
                bringsToken: plan.steps == 0 || number % 5 != 4,
                lastActedAt: start,
                address: "user\(number)@example.com"
            )
        }
    }

    var report: Report {
        world.with { state in
            Report(
                seed: seed,
                repeatLine: "make simulate SEED=\(seed)",
                violation: state.violation,
                steps: steps,
                requests: state.ledger.requests,
                answers: state.ledger.answers,
                digest: state.trace.digest,
                tally: state.tally,
                tail: Array(state.trace.tail)
            )
        }
    }

    var now: Timestamp { world.now }
    var truth: Timestamp { world.with { $0.truth } }
    var isBroken: Bool { world.with { $0.violation != nil } }

    mutating func run() async throws {
        while steps < plan.steps, !isBroken {
            steps += 1
            try await step()
            try check()
        }
        if !isBroken { try await calmDown() }
        await abandon()
    }
}

extension Simulation.Report {
    init(seed: UInt64, repeatLine: String, failure: any Error) {
        self.init(seed: seed, repeatLine: repeatLine, violation: Violation(.nothingIsStuck, "the simulation itself failed: \(failure)"))
    }
}
