// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

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

    /// The seed's decisions before the first step.
    struct Plan {
        var apps: [SimulatedApp]
        var users: Int
        var steps = 0
        var weathers: [Weather] = []
        /// How many steps in a thousand are crashes.
        var crashes = 0
        var losesNotifications = false
        var delaysGrants = false
        var troublesStore = false
        var freezes = false
        /// Whether backends report other tokens than those of the sign-in.
        var importsTokens = false
        /// Whether backends date sign-ins wrongly.
        var datesWrongly = false
        /// Whether backends report old facts again, dated now.
        var tellsAgain = false
        /// Whether a backend imports so many users that other sign-ins stand behind them for minutes.
        var importsMany = false
        /// Whether operators restore an old backup.
        var restores = false
        var setsClock = false
        /// How many in a thousand sign-ins bring a code, and how many in a thousand events are an app's request to revoke.
        var codes = 0
        var revocations = 0
        /// How many in a thousand events of people with an accepted token are changes of the password.
        var passwords = 0
        /// Whether Apple ends nothing but the token that it is asked to revoke. Its documents can be read so, too.
        var revokesAlone = false
        /// Whether apps move to another team.
        var transfers = false
        /// Whether apps change hands while siwatch proves a revocation, and at no other time.
        var transfersInProofs = false
        /// Whether the tokens of an app move to the other team with it.
        var tokensMove = false
        /// Whether operators take a client out of the configuration for a while.
        var changesClients = false
        /// Whether operators import files of users, and undo imports.
        var importsFiles = false
        /// Whether operators confirm rejections.
        var confirmsRejections = false
        /// A client that Apple will refuse for good.
        var refused: String?
        var breaker = BreakerRules()
        var revocationLimit = RevocationLimitRules()
        /// Users who never leave. The operator has named them.
        var canaries: [String: Set<String>] = [:]
        /// Whether the breaker opens so easily that siwatch may never believe some departures.
        var isTouchy: Bool { breaker.maxRejections < 20 }
    }

    let plan: Plan
    let world: SimulatedWorld
    let database: any SimulatedDatabase
    let seed: UInt64
    let bug: PlantedBug?
    var generator: SeededGenerator
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

    struct Person {
        var user: String
        var app: SimulatedApp
        /// Whether the app's backend gets a refresh token from this person's sign-ins.
        var bringsToken: Bool
        var lastActedAt: Timestamp
        var address: String
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
        let start = SimulatedTime.start
        world = SimulatedWorld(
            SimulatedWorld.State(
                now: start,
                apple: ScriptedApple(apps: plan.apps, revokesAlone: plan.revokesAlone),
                model: ReferenceModel(apps: plan.apps, maxRequestsPerHour: plan.revocationLimit.maxPerHour, startedAt: start),
                ledger: CallLedger(interval: SimulatedProcess.policy.interval)
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

extension Simulation.Plan {
    /// Each decision has a generator of its own, made from the seed and the decision's name. So a new decision changes no other.
    init(seed: UInt64) {
        func number(_ range: ClosedRange<Int>, _ decision: String) -> Int {
            var generator = SeededGenerator(seed: seed ^ StableHash(decision).value)
            return Int.random(in: range, using: &generator)
        }
        func chance(_ percent: Int, _ decision: String) -> Bool { number(0...99, decision) < percent }
        let all: [Weather] = [
            .outage, .throttling(retryAfter: nil), .throttling(retryAfter: .seconds(600)), .invalidClient, .wrongKey, .ambiguous, .slow,
            .wrongClient("app"), .massRejection(1), .namesNobody,
        ]
        apps = [SimulatedApp(name: "example", clientIDs: chance(50, "second client") ? ["app", "web"] : ["app"])]
        if chance(30, "second app") { apps.append(SimulatedApp(name: "other", clientIDs: ["elsewhere"])) }
        users = number(1...6, "users")
        steps = number(40...90, "steps")
        // Each run has its own kinds of trouble, because all at once would hide one another.
        weathers = all.filter { chance(35, "weather \($0)") }
        if chance(20, "refreshes rejected") { weathers.append(.refreshesRejected("app")) }
        crashes = chance(60, "crashes") ? number(10...80, "crash rate") : 0
        losesNotifications = chance(60, "notifications lost")
        delaysGrants = chance(40, "grants delayed")
        troublesStore = chance(30, "store in trouble")
        freezes = chance(30, "freezes")
        importsTokens = chance(40, "tokens imported")
        datesWrongly = chance(15, "sign-ins misdated")
        tellsAgain = chance(30, "tokens told again")
        importsMany = chance(40, "imports of many")
        restores = chance(30, "restores")
        setsClock = chance(30, "clock set")
        codes = chance(60, "codes") ? number(100...900, "code rate") : 0
        revocations = chance(65, "revocations") ? number(50...300, "revocation rate") : 0
        passwords = chance(65, "passwords") ? number(200...700, "password rate") : 0
        revokesAlone = chance(30, "tokens revoked alone")
        transfers = chance(40, "transfers")
        transfersInProofs = !transfers && chance(50, "transfers in proofs")
        tokensMove = chance(30, "tokens move")
        if chance(10, "client refused") { refused = apps[0].clientIDs.last }
        breaker = chance(75, "usual breaker") ? BreakerRules() : BreakerRules(window: 10, maxRejections: 1, maxRejectedPercent: 50)
        revocationLimit = chance(40, "brake") ? RevocationLimitRules(maxPerHour: number(0...1, "brake bound")) : RevocationLimitRules()
        canaries = chance(30, "canaries") ? ["example": ["user0"]] : [:]
        // The model does not know how long a wrong clock lets a sign-in wait.
        changesClients = chance(30, "clients changed") && apps[0].clientIDs.count > 1 && !setsClock
        importsFiles = chance(50, "files imported")
        confirmsRejections = chance(50, "rejections confirmed")
    }
}
