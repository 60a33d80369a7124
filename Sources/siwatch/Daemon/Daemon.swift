// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import AsyncHTTPClient
import CredentialCore
import CredentialMonitor
import CredentialSealing
import Foundation
import Logging
import NIOConcurrencyHelpers
import NIOCore
import PrometheusMetrics
import ServiceLifecycle
import UnixSignals

/// Every part of the daemon, put together from a configuration.
struct Daemon {
    let configuration: Configuration
    let logger: Logger
    let output: LogOutput
    let store: any CredentialStore
    let registry: PrometheusRegistry
    let telemetry: Telemetry
    let client: HTTPClient
    let signingKeys: SigningKeys
    let writer: SettlementWriter
    let notifications: NotificationHandler
    let grants: GrantHandler
    let codes: CodeHandler
    let revocations: RevocationHandler
    let apps: [WatchedApp]
    let membership: FleetMembership
    let clock: WallClock
    let clockGuard: ClockGuard
    let erasureBlocker: ErasureBlocker

    /// An app at work, and the parts of it that a reload reaches.
    struct WatchedApp {
        var atWork: AppAtWork
        var teamID: String
        var secrets: ClientSecrets
        var refreshes: RefreshHandler
        var wakeups: Wakeups
    }

    init(
        _ configuration: Configuration,
        _ keys: Keys,
        _ database: OpenedDatabase,
        _ client: HTTPClient,
        log output: LogOutput
    ) async throws {
        self.configuration = configuration
        self.output = output
        logger = Logger(label: "siwatch") { LogLines(label: $0, output: output) }
        let store = database.store
        self.store = store
        let membership = try await FleetMembership(in: store, as: database.replica, configuration)
        let clock = membership.clock
        (self.membership, self.clock) = (membership, clock)

        registry = PrometheusRegistry(Metric.allCases.map(MetricDescription.init))
        let telemetry = Telemetry(
            logger: logger,
            factory: PrometheusMetricsFactory(registry: registry),
            pseudonym: database.pseudonyms.pseudonym
        )
        telemetry.describeBuild(version: Version.current, database: database.program)
        telemetry.createSeries(apps: configuration.apps.map(\.name))
        telemetry.configurationLoaded(at: clock.now)
        self.telemetry = telemetry

        self.client = client
        let clockGuard = ClockGuard(clock: clock, uptime: membership.uptime, telemetry: telemetry)
        self.clockGuard = clockGuard
        erasureBlocker = ErasureBlocker(telemetry: telemetry)
        let appleClock = AppleClock(clock: clock, clockGuard: clockGuard, telemetry: telemetry)
        let transport = ObservedTransport(
            client: client,
            version: Version.current,
            timeout: configuration.refresh.timeout
        ) { exchange in
            telemetry.appleAnswered(endpoint: exchange.endpoint.rawValue, status: exchange.status)
            if let date = exchange.date { appleClock.observe(date) }
        }
        let signingKeys = SigningKeys(
            url: configuration.apple.keysEndpoint.absoluteString,
            transport: transport,
            store: store,
            clock: clock
        )
        try await signingKeys.load()
        self.signingKeys = signingKeys
        telemetry.signingKeysRefreshed(count: signingKeys.count, at: signingKeys.lastRefresh)

        let rules = configuration.settlementRules(startedAt: clock.now)
        let wakeups = Dictionary(
            uniqueKeysWithValues: configuration.apps.map { ($0.name, Wakeups(every: configuration.queues.pollInterval)) }
        )
        let signInRush = SignInRush()
        writer = SettlementWriter(
            store: store,
            rules: rules,
            clock: clock,
            signInRush: signInRush,
            telemetry: telemetry
        ) { apps in
            for app in apps { wakeups[app]?.hint() }
        }
        try await store.keepInBreakers(configuration.clientsOfApps, under: rules, at: clock.now)
        let breakers = writer.breakers
        try await breakers.load(from: store)
        notifications = NotificationHandler(
            store: store,
            verifier: AppleNotificationVerifier(
                keys: signingKeys,
                policy: configuration.notificationPolicy,
                clock: clock
            ),
            clock: clock,
            cores: ProcessInfo.processInfo.activeProcessorCount,
            signInRush: signInRush
        )
        grants = GrantHandler(
            store: store,
            sealer: database.sealer,
            clients: configuration.clientIDs,
            clockSkew: configuration.queues.clockSkew,
            clock: clock,
            clockGuard: clockGuard,
            intake: writer.intake,
            telemetry: telemetry
        )
        apps = configuration.apps.map { app in
            let secrets = ClientSecrets(teamID: app.teamID, key: keys.clientSecretKeys[app.name]![0], clock: clock)
            let lease = membership.lease(of: .app(app.name))
            let endpoint = AppleTokenEndpoint(
                url: configuration.apple.tokenEndpoint.absoluteString,
                revocationURL: configuration.apple.revocationEndpoint.absoluteString,
                secrets: secrets,
                transport: transport,
                clock: clock,
                mayAsk: membership.mayAsk(for: app.name)
            )
            let atWork = AppAtWork(
                name: app.name,
                clientIDs: Set(app.clientIDs),
                endpoint: endpoint,
                budget: RequestBudget(configuration.refresh.limits, lease: lease),
                codeBudget: CodeHandler.budget(configuration.refresh.limits, lease: lease),
                canaries: Set(app.canaries),
                mayRevoke: app.revocations
            )
            let refreshes = RefreshHandler(
                app: atWork,
                store: store,
                sealer: database.sealer,
                policy: configuration.refreshPolicy,
                breakers: breakers,
                clock: clock,
                telemetry: telemetry
            )
            return WatchedApp(atWork: atWork, teamID: app.teamID, secrets: secrets, refreshes: refreshes, wakeups: wakeups[app.name]!)
        }
        codes = CodeHandler(
            apps: apps.map(\.atWork),
            store: store,
            verifier: AppleIdentityTokenVerifier(
                keys: signingKeys,
                issuers: configuration.notificationPolicy.issuers,
                clockSkew: configuration.queues.clockSkew,
                clock: clock
            ),
            sealer: database.sealer,
            policy: configuration.refreshPolicy,
            breakers: breakers,
            clock: clock,
            clockGuard: clockGuard,
            signInRush: signInRush,
            telemetry: telemetry
        )
        revocations = RevocationHandler(
            apps: apps.map(\.atWork),
            store: store,
            sealer: database.sealer,
            policy: configuration.refreshPolicy,
            breakers: breakers,
            clock: clock,
            telemetry: telemetry
        )
    }

    /// Runs until a signal asks for a stop, then drains.
    func run() async throws {
        let lanes = Set(
            [notifications.lane, grants.lane, codes.lane, revocations.lane, OperatorRequestHandler.lane] + apps.map(\.refreshes.lane)
        )
        let progress = LoopProgress(
            lanes: lanes,
            pollInterval: configuration.queues.pollInterval,
            longestSilence: store.longestSilence,
            writer: writer
        )
        let notifier = SystemdNotifier()
        let databaseWatch = DatabaseWatch(store, at: configuration.database.path, logger: logger)
        let readiness = Readiness(progress: progress, notifier: notifier, logger: logger) { [membership, configuration] in
            databaseWatch.trouble ?? membership.trouble(clockSkew: configuration.queues.clockSkew)
        }
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        let pollInterval = configuration.queues.pollInterval
        let (grantWakeups, codeWakeups, notificationWakeups) = (
            Wakeups(every: pollInterval), Wakeups(every: pollInterval), Wakeups(every: pollInterval)
        )
        let (revocationWakeups, requestWakeups) = (Wakeups(every: pollInterval), Wakeups(every: pollInterval))

        func loop<Handler: WorkHandler>(
            _ handler: Handler,
            on wakeups: Wakeups,
            executors: [EventLoopExecutor] = []
        ) -> ClaimLoop<Handler> {
            ClaimLoop(
                handler,
                writer: writer,
                wakeups: wakeups,
                progress: progress,
                telemetry: telemetry,
                mayClaim: membership.hearsOthers,
                executors: executors
            )
        }
        let eventLoops = client.eventLoopGroup.makeIterator().map(EventLoopExecutor.init)

        // Services stop in reverse: first readiness, then the loops, then the writer. Metrics are served throughout.
        var services: [any Service] = [
            SystemdReports(
                notifier: notifier,
                readiness: readiness,
                reader: store,
                clock: clock,
                watchdogInterval: SystemdNotifier.watchdogInterval()
            )
        ]
        if let address = configuration.operations.listen {
            services.append(operationsServer(address, progress, readiness))
        }
        services += [keyRefresh, maintenance, overdueCount, databaseWatch.service(every: pollInterval), heartbeat(progress)]
        // Gives the lanes back after the writer and the loops have stopped.
        if let keeper = membership.keeper(writer.breakers, store, telemetry) {
            // Renews now, so that shared lanes need not wait for the keeper's first turn. That turn finds an older replica again.
            await keeper.renew()
            services.append(keeper)
        }
        services.append(writer)
        services.append(
            ParallelServices(
                [
                    loop(codes, on: codeWakeups), loop(grants, on: grantWakeups), loop(notifications, on: notificationWakeups),
                    loop(revocations, on: revocationWakeups), requests(requestWakeups, progress),
                ] + apps.map { loop($0.refreshes, on: $0.wakeups, executors: eventLoops) }
            )
        )
        services.append(CommitHints(store, wakeups: [codeWakeups, grantWakeups, notificationWakeups, revocationWakeups, requestWakeups]))
        services.append(reload(on: hangups, notifier, readiness))
        services.append(readiness)

        var group = ServiceGroupConfiguration(
            services: services.map { .init(service: $0) },
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        group.maximumGracefulShutdownDuration = Self.longestStop
        for warning in configuration.warnings { logger.log(.configurationDoubtful, ["reason": "\(warning)"]) }
        do {
            for canary in try await store.unknownCanaries(of: configuration) { telemetry.canaryUnknown(canary.app, userID: canary.userID) }
            await sayOtherTeams(than: configuration)
            logger.log(.starting, ["version": "\(Version.current)", "count": "\(configuration.apps.count)"])
            try await ServiceGroup(configuration: group).run()
        } catch is CancellationError where readiness.stoppingSince != nil {
            // The stop was cut short in the middle of work.
        } catch {
            // A failed start has no work under way. Other replicas need not take this one for living.
            if !readiness.isStarted, readiness.stoppingSince == nil { try? await store.fleet?.release() }
            throw error
        }
        let took = readiness.stoppingSince.map { ContinuousClock.now - $0 } ?? .zero
        logger.log(took < Self.longestStop ? .stopped : .stopCutShort, ["duration_ms": "\(took.milliseconds)"])
    }

    /// Reports apps whose tokens Apple has accepted from another team: the app has changed hands, or its `team_id` is wrong.
    func sayOtherTeams(than configuration: Configuration) async {
        // If the database does not answer, other log lines say so.
        for team in (try? await store.otherTeams(than: configuration)) ?? [] {
            telemetry.teamChanged(team.app, from: team.oldTeamID, to: team.teamID, count: team.tokens)
        }
    }

    /// Less than TimeoutStopSec in the unit. Work that is left then comes back by its lease.
    static let longestStop = Duration.seconds(45)
}

extension MetricDescription {
    init(_ metric: Metric) {
        let kind: Kind =
            switch metric.kind {
            case .counter: .counter
            case .gauge: .gauge
            case .histogram(let buckets): .histogram(buckets: buckets)
            }
        self.init(metric.name, kind, help: metric.help, labels: metric.labels)
    }
}
