// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialSealing
import Logging
import PrometheusMetrics

/// The surroundings that all parts of the daemon share.
struct DaemonContext {
    /// As of the start. A reload changes the parts that can change.
    let configuration: Configuration
    let store: any CredentialStore
    let doorStore: any CredentialStore
    let database: DatabaseLocation
    let sealer: CredentialSealer
    let membership: FleetMembership
    let clock: WallClock
    let clockGuard: ClockGuard
    let output: LogOutput
    let logger: Logger
    let registry: PrometheusRegistry
    let telemetry: Telemetry

    init(_ configuration: Configuration, _ database: OpenedDatabase, log output: LogOutput, delivers: Bool) async throws {
        self.configuration = configuration
        store = database.store
        doorStore = database.doorStore ?? database.store
        self.database = database.location
        sealer = database.sealer
        membership = try await FleetMembership(in: store, as: database.replica, configuration, delivers: delivers)
        clock = membership.clock
        self.output = output
        logger = Logger(label: "siwatch") { LogLines(label: $0, output: output) }
        if let cut = database.cutMemory { logger.log(.sharedMemoryCut, ["error": "\(cut)"]) }
        registry = PrometheusRegistry(Metric.allCases.map(MetricDescription.init))
        telemetry = Telemetry(logger: logger, factory: registry, pseudonym: database.sealer.userPseudonyms.pseudonym)
        telemetry.gauge(.buildInfo, 1, ["version": Version.current, "database": database.program])
        telemetry.createSeries(apps: configuration.apps.map(\.name))
        telemetry.configurationLoaded(at: clock.now)
        clockGuard = ClockGuard(clock: clock, uptime: membership.uptime, telemetry: telemetry)
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
