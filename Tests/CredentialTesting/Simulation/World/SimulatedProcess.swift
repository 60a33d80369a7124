// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CoreMetrics
import CredentialCore
import CredentialMonitor
import Logging

/// The state in memory between two crashes, composed as the daemon does it, over a database that outlives it.
struct SimulatedProcess {
    static let policy = RefreshPolicy()

    /// Codes have brought sign-ins before, so that siwatch revokes the token of a bad one. A few days have too few codes for that.
    private static let goodRecord: CodeRecord = {
        var record = CodeRecord()
        for _ in 1...CodeRecord.length { record.append(isFailure: false) }
        return record
    }()

    let store: any CredentialStore
    let writer: SettlementWriter
    let notifications: NotificationHandler
    let grants: GrantHandler
    let refreshes: [RefreshHandler]
    let codes: CodeHandler
    let revocations: RevocationHandler
    let operators: OperatorRequestHandler
    let atWork: [AppAtWork]
    let clients: [AppClients]
    let rules: SettlementRules
    let clockGuard: ClockGuard

    /// - Parameter dropped: a client missing from its configuration.
    init(
        _ plan: Simulation.Plan,
        without dropped: String?,
        on database: any SimulatedDatabase,
        in world: SimulatedWorld,
        bug: PlantedBug?
    ) async throws {
        let apps = plan.apps.map { SimulatedApp(name: $0.name, clientIDs: $0.clientIDs.filter { $0 != dropped }) }
        let clients = apps.map { AppClients(name: $0.name, clientIDs: $0.clientIDs) }
        let store = try database.open()
        self.store = store
        store.trust(PlainSealer(), since: world.clock.now, world.memory)
        try store.register(clients)
        let ports = SimulatedStore(store: store, database: database, world: world, bug: bug)
        let clock = world.clock
        let logger = Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() }
        let telemetry = Telemetry(logger: logger, factory: NOOPMetricsHandler.instance, pseudonym: { _ in "" })
        clockGuard = ClockGuard(clock: clock, uptime: { SimulatedTime.start.duration(to: world.with(\.truth)) }, telemetry: telemetry)
        let rules = SettlementRules(
            policy: Self.policy,
            pollInterval: .seconds(1),
            startedAt: clock.now,
            breaker: plan.breaker,
            revocationLimit: plan.revocationLimit,
            canaries: plan.canaries,
            pseudonymizer: PlainSealer()
        )
        try await world.call { try await store.adopt(clients, under: rules, at: clock.now) }
        (self.clients, self.rules) = (clients, rules)
        writer = SettlementWriter(store: ports, rules: rules, clock: clock, telemetry: telemetry)
        let breakers = writer.breakers
        try await world.call { try await breakers.load(from: store) }
        let clientIDs = Set(apps.flatMap(\.clientIDs))
        let verifier = SimulatedVerifier(world: world, clientIDs: clientIDs)
        world.with { $0.ring = PlainRing($0.sealingKeys, others: $0.ring.others) }
        let shared = LaneContext(writer, sealer: PlainSealer(ring: { world.with(\.ring) }), clockGuard: clockGuard)
        notifications = NotificationHandler(verifier: verifier, cores: 2, shared)
        grants = GrantHandler(of: clientIDs, shared)
        let desk = SimulatedDesk(desk: store, world: world)
        operators = OperatorRequestHandler(
            desk: desk,
            reader: desk,
            rules: { RecheckRules(refreshInterval: Self.policy.interval, requestsPerSecond: 50) },
            wakeups: Wakeups(every: .seconds(1)),
            progress: LoopProgress(lanes: [], pollInterval: .seconds(1)),
            shared
        )
        let endpoint = SimulatedEndpoint(world: world)
        let atWork = apps.map { app in
            AppAtWork(
                name: app.name,
                clientIDs: Set(app.clientIDs),
                endpoint: endpoint,
                budget: RequestBudget(RequestLimits(maxRequestsPerSecond: 50)),
                codeBudget: RequestBudget(RequestLimits(maxRequestsPerSecond: 50)),
                canaries: plan.canaries[app.name] ?? []
            )
        }
        self.atWork = atWork
        let records = Dictionary(uniqueKeysWithValues: clientIDs.map { ($0, Self.goodRecord) })
        codes = CodeHandler(apps: atWork, verifier: SimulatedIdentityVerifier(world: world), shared, records: records)
        revocations = RevocationHandler(apps: atWork, shared)
        refreshes = atWork.map { RefreshHandler(of: $0, shared) }
    }
}

/// Operators' requests for the simulated process. It may die while it carries one out, and the store may fail before or after.
struct SimulatedDesk: OperatorDesk, BreakerReader {
    let desk: any OperatorDesk & BreakerReader
    let world: SimulatedWorld

    func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64 { try await desk.submit(request, at: now) }
    func answer(to id: Int64) async throws -> OperatorAnswer? { try await desk.answer(to: id) }
    func withdraw(_ id: Int64) async throws -> Bool { try await desk.withdraw(id) }

    func takePlanted() -> [PlantedDecisions] {
        let taken = desk.takePlanted()
        world.with { state in
            for decisions in taken where !state.planted.contains(decisions.kind) {
                state.report(Violation(.nothingIsLost, "siwatch takes its own \(decisions) for planted"))
            }
        }
        return taken
    }

    func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest? {
        try await world.read { try await desk.handleNextRequest(under: rules, at: now) }
    }

    func breakers() async throws -> [String: RejectionBreaker] { try await world.read { try await desk.breakers() } }
    func apps() async throws -> [AppStatus] { try await world.read { try await desk.apps() } }
}
