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
import PrometheusMetrics
import SQLiteStore
import ServiceLifecycle
import UnixSignals

/// Every part of the daemon, put together from a configuration.
struct Daemon {
    private let configuration: Configuration
    private let logger: Logger
    private let output: LogOutput
    private let store: SQLiteStore
    private let registry: PrometheusRegistry
    private let telemetry: Telemetry
    private let client: HTTPClient
    private let signingKeys: SigningKeys
    private let writer: SettlementWriter
    private let notifications: NotificationHandler
    private let grants: GrantHandler
    private let apps: [WatchedApp]
    private let clock = WallClock.system

    /// What a reload changes of an app, and what it runs on.
    private struct WatchedApp {
        var name: String
        var teamID: String
        var secrets: ClientSecrets
        var budget: RequestBudget
        var refreshes: RefreshHandler
    }

    init(_ configuration: Configuration, _ keys: Keys, _ database: OpenedDatabase, log output: LogOutput) async throws {
        self.configuration = configuration
        self.output = output
        logger = Logger(label: "siwatch") { LogLines(label: $0, output: output) }
        let clock = self.clock
        let store = database.store
        self.store = store

        registry = PrometheusRegistry(Metric.all.map(MetricDescription.init))
        let telemetry = Telemetry(
            logger: logger,
            factory: PrometheusMetricsFactory(registry: registry),
            pseudonym: database.pseudonyms.pseudonym
        )
        telemetry.describeBuild(version: Version.current, sqlite: SQLiteLibrary.version)
        telemetry.createSeries(apps: configuration.apps.map(\.name))
        telemetry.configurationLoaded(at: clock.now)
        self.telemetry = telemetry

        let policy = RefreshPolicy(interval: configuration.refresh.interval, timeout: configuration.refresh.timeout)
        client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: .apple
        )
        let appleClock = AppleClock(clock: clock, telemetry: telemetry)
        let transport = HTTPTransport(
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

        let clients = Set(configuration.apps.flatMap(\.clientIDs))
        writer = SettlementWriter(
            store: store,
            rules: SettlementRules(policy: policy, pollInterval: configuration.queues.pollInterval, startedAt: clock.now),
            clock: clock,
            telemetry: telemetry
        )
        notifications = NotificationHandler(
            store: store,
            verifier: AppleNotificationVerifier(
                keys: signingKeys,
                policy: NotificationPolicy(
                    issuers: Set(configuration.apple.issuers),
                    clientIDs: clients,
                    clockSkew: configuration.queues.clockSkew
                ),
                clock: clock
            ),
            clock: clock,
            cores: ProcessInfo.processInfo.activeProcessorCount
        )
        grants = GrantHandler(
            store: store,
            sealer: database.sealer,
            clients: clients,
            clockSkew: configuration.queues.clockSkew,
            clock: clock,
            telemetry: telemetry
        )
        apps = configuration.apps.map { app in
            let secrets = ClientSecrets(teamID: app.teamID, key: keys.clientSecretKeys[app.name]![0], clock: clock)
            let budget = RequestBudget(RequestLimits(configuration.refresh))
            let refreshes = RefreshHandler(
                app: app.name,
                store: store,
                endpoint: AppleTokenEndpoint(
                    url: configuration.apple.tokenEndpoint.absoluteString,
                    secrets: secrets,
                    transport: transport,
                    clock: clock
                ),
                sealer: database.sealer,
                policy: policy,
                budget: budget,
                clock: clock,
                telemetry: telemetry
            )
            return WatchedApp(name: app.name, teamID: app.teamID, secrets: secrets, budget: budget, refreshes: refreshes)
        }
    }

    /// Runs until a signal asks for a stop, and then drains.
    func run() async throws {
        let lanes = Set([notifications.lane, grants.lane, OperatorRequestHandler.lane] + apps.map(\.refreshes.lane))
        let progress = LoopProgress(lanes: lanes, pollInterval: configuration.queues.pollInterval, writer: writer)
        let notifier = SystemdNotifier()
        let readiness = Readiness(progress: progress, notifier: notifier, logger: logger)
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        var wakeups: [Wakeups] = []

        func loop<Handler: WorkHandler>(_ handler: Handler) -> ClaimLoop<Handler> {
            let wakeup = Wakeups(every: configuration.queues.pollInterval)
            wakeups.append(wakeup)
            return ClaimLoop(handler, writer: writer, wakeups: wakeup, progress: progress, telemetry: telemetry)
        }

        // Stopped in reverse: first readiness ends, then the loops, then the writer, while metrics are served throughout.
        var services: [any Service] = [
            SystemdReports(
                notifier: notifier,
                readiness: readiness,
                reader: store,
                watchdogInterval: SystemdNotifier.watchdogInterval()
            )
        ]
        if let address = configuration.operations.listen {
            services.append(operationsServer(address, progress, readiness))
        }
        services += [keyRefresh, maintenance, overdueCount]
        services.append(writer)
        services += [loop(grants), loop(notifications)] as [any Service]
        services += apps.map { loop($0.refreshes) }
        let requestWakeup = Wakeups(every: configuration.queues.pollInterval)
        services.append(requests(requestWakeup, progress))
        services.append(CommitHints(store, wakeups: wakeups + [requestWakeup]))
        services.append(reload(on: hangups, notifier, readiness))
        services.append(readiness)

        var group = ServiceGroupConfiguration(
            services: services.map { .init(service: $0) },
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        group.maximumGracefulShutdownDuration = Self.longestStop
        for warning in configuration.warnings { logger.log(.configurationDoubtful, ["reason": "\(warning)"]) }
        logger.log(.starting, ["version": "\(Version.current)", "count": "\(configuration.apps.count)"])
        do {
            try await ServiceGroup(configuration: group).run()
        } catch is CancellationError where readiness.stoppingSince != nil {
            // The stop was cut short in the middle of something.
        }
        let took = readiness.stoppingSince.map { ContinuousClock.now - $0 } ?? .zero
        logger.log(took < Self.longestStop ? .stopped : .stopCutShort, ["duration_ms": "\(took.milliseconds)"])
    }

    /// Less than TimeoutStopSec in the unit: what is left then comes back by its lease.
    private static let longestStop = Duration.seconds(45)

    private func requests(_ wakeups: Wakeups, _ progress: LoopProgress) -> OperatorRequestHandler {
        OperatorRequestHandler(
            desk: store,
            // A reload may change the rate.
            rules: { [configuration, apps] in
                var refresh = configuration.refresh
                if let limits = apps.first?.budget.limits { refresh.maxRequestsPerSecond = Int(limits.maxRequestsPerSecond) }
                return RecheckRules(refresh)
            },
            clock: clock,
            wakeups: wakeups,
            progress: progress,
            telemetry: telemetry
        )
    }

    /// Settles what is due now, and stops like the daemon if a signal comes first.
    func runOnce() async throws {
        var writing = ServiceGroupConfiguration.ServiceConfiguration(service: writer)
        writing.successTerminationBehavior = .gracefullyShutdownGroup
        var settling = ServiceGroupConfiguration.ServiceConfiguration(service: Errand { try await settleAll() })
        settling.successTerminationBehavior = .gracefullyShutdownGroup
        let group = ServiceGroupConfiguration(
            services: [writing, settling],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        try await ServiceGroup(configuration: group).run()
        try await store.maintain(at: clock.now)
    }

    private func settleAll() async throws {
        await refreshKeys()
        try await settleAll(grants)
        try await settleAll(notifications)
        let due = try await store.overdueCredentials(before: clock.now, upTo: .max)
        // No more than are due now: with a short interval some are due again before the last is done.
        for app in apps { try await settleAll(app.refreshes, atMost: due[app.name] ?? 0) }
    }

    func shutdown() async throws {
        try await client.shutdown()
    }

    private func settleAll(_ handler: some WorkHandler, atMost limit: Int = .max) async throws {
        let loop = ClaimLoop(
            handler,
            writer: writer,
            wakeups: Wakeups(every: configuration.queues.pollInterval),
            progress: LoopProgress(lanes: [], pollInterval: configuration.queues.pollInterval),
            telemetry: telemetry
        )
        var settled = 0
        while settled < limit, !Task.isShuttingDownGracefully {
            let round = try await loop.round()
            settled += round
            if round > 0 { continue }
            guard let delay = handler.retryDelay() else { return }
            try await Task.sleep(for: delay)
        }
    }

    private func reload(on hangups: UnixSignalsSequence, _ notifier: SystemdNotifier, _ readiness: Readiness) -> Reload {
        let atWork = NIOLockedValueBox(configuration)
        return Reload(
            source: configuration.source,
            signals: hangups,
            notifier: notifier,
            logger: logger,
            telemetry: telemetry,
            clock: clock,
            isReady: { readiness.condition == .good }
        ) { [apps, output, logger, telemetry] new, keys in
            let taken = atWork.withLockedValue { configuration in
                configuration = configuration.reloading(new)
                return configuration
            }
            output.level = taken.log.level
            for app in apps {
                app.budget.limits = RequestLimits(taken.refresh)
                // A key is one of its team's; one that replaces a wrong one is tried at once.
                let isSameTeam = new.apps.contains { $0.name == app.name && $0.teamID == app.teamID }
                if isSameTeam, let key = keys.clientSecretKeys[app.name]?.first, app.secrets.use(key) {
                    app.budget.resume()
                    telemetry.appUnpaused(app.name)
                }
            }
            logger.log(.reloaded)
            let waiting = taken.differences(from: new)
            if !waiting.isEmpty { logger.log(.reloadNeedsRestart, ["reason": "\(waiting.joined(separator: ", "))"]) }
        }
    }

    // MARK: What happens now and then

    private func refreshKeys() async {
        switch await signingKeys.refreshIfDue() {
        case .notDue: return
        case .fetched(_, _, let unsaved):
            if let unsaved { telemetry.signingKeysFailed(unsaved) }
        case .failed(let reason): telemetry.signingKeysFailed(reason)
        }
        telemetry.signingKeysRefreshed(count: signingKeys.count, at: signingKeys.lastRefresh)
    }

    private var keyRefresh: Recurring {
        Recurring(every: .seconds(1), onFailure: { _ in }) { await refreshKeys() }
    }

    private var maintenance: Recurring {
        Recurring(every: .seconds(60), onFailure: telemetry.maintenanceFailed) { [store, clock, telemetry] in
            telemetry.foreignCheckpoints(store.takeForeignCheckpoints())
            try await store.maintain(at: clock.now)
        }
    }

    private var overdueCount: Recurring {
        Recurring(every: .seconds(15), onFailure: telemetry.maintenanceFailed) { [store, clock, telemetry] in
            telemetry.observe(overdue: try await store.overdueCredentials(before: clock.now.advanced(by: .seconds(-60)), upTo: 100_000))
        }
    }

    private func operationsServer(_ address: ListenAddress, _ progress: LoopProgress, _ readiness: Readiness) -> OperationsServer {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .warning)
        return OperationsServer(
            address: address,
            logger: quiet,
            metrics: { [store, telemetry, registry, output] format in
                telemetry.suppressed(output.takeSuppressed())
                telemetry.observe(isReady: readiness.condition == .good)
                if let unverified = try? await store.unverifiedCredentials() { telemetry.observe(unverified: unverified) }
                if let queues = try? await store.queues(), let credentials = try? await store.credentialCounts() {
                    telemetry.observe(queues: queues, credentials: credentials)
                }
                if let apps = try? await store.apps() { telemetry.observe(apps: apps) }
                return registry.exposition(format)
            },
            health: {
                let stalled = progress.stalled
                return stalled.isEmpty ? .good : .bad("no progress: \(stalled.joined(separator: ", "))")
            },
            readiness: { readiness.condition },
            onListening: { [logger] port in
                logger.log(.listening, ["address": "\(ListenAddress(host: address.host, port: port))"])
            }
        )
    }
}

extension RecheckRules {
    init(_ configuration: Configuration.Refresh) {
        self.init(refreshInterval: configuration.interval, requestsPerSecond: configuration.maxRequestsPerSecond)
    }
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

extension RequestLimits {
    init(_ refresh: Configuration.Refresh) {
        self.init(
            maxRequestsPerSecond: Double(refresh.maxRequestsPerSecond),
            maxConcurrentRequests: refresh.maxConcurrentRequests
        )
    }
}

/// Work that ends by itself, as a service.
private struct Errand: Service {
    var body: @Sendable () async throws -> Void

    func run() async throws {
        try await body()
    }
}
