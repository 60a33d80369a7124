// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AsyncHTTPClient
import BackendAPI
import BoundedHTTP
import CredentialCore
import CredentialMonitor
import CredentialSealing

struct Daemon {
    let context: DaemonContext
    let client: HTTPClient
    let apple: AppleAccess
    let writer: SettlementWriter
    let shared: LaneContext
    let apps: [WatchedApp]
    let queues: QueueHandlers
    let queueWakeups: QueueWakeups
    let keyTrials: KeyTrials
    let door: HTTPDoor?
    let deliveries: Deliveries
    let intakeWatch: IntakeWatch?

    init(
        _ configuration: Configuration,
        _ keys: Keys,
        _ database: OpenedDatabase,
        _ client: HTTPClient,
        log output: LogOutput,
        delivers: Bool = true
    ) async throws {
        let context = try await DaemonContext(configuration, database, log: output, delivers: delivers)
        let apple = try await AppleAccess(client, context)
        queueWakeups = QueueWakeups(every: configuration.queues.pollInterval)
        door = try Self.door(keys.http, apple, context, onAppended: queueWakeups.hint)
        let wakeups = configuration.apps.map { _ in Wakeups(every: configuration.queues.pollInterval) }
        let writer = try await SettlementWriter(waking: wakeups, door, context)
        let shared = LaneContext(writer, sealer: context.sealer, clockGuard: context.clockGuard)
        apps = zip(configuration.apps, wakeups).map { app, wakeups in
            WatchedApp(app, keys, apple, shared, wakeups, context)
        }
        queues = QueueHandlers(apps, apple, shared, configuration)
        keyTrials = KeyTrials(apps, context)
        deliveries = try await Deliveries(keys, context)
        intakeWatch = configuration.http.notificationsURL.map { url in
            let transport = HTTPTransport(toAnybodyBy: client)
            return IntakeWatch(clock: context.clock) { await IntakeTest.proof(context.sealer.intakeTest, at: url, transport) }
        }
        (self.context, self.client, self.apple, self.writer, self.shared) = (context, client, apple, writer, shared)
    }
}

extension SettlementWriter {
    /// The writer by the rules of a configuration, with the breakers as the store has kept them. A commit that brings an app new tokens wakes
    /// its loop, and after each commit the door looks for the outcomes of sign-ins.
    convenience init(waking wakeups: [Wakeups], _ door: HTTPDoor?, _ context: DaemonContext) async throws {
        let (configuration, store, clock) = (context.configuration, context.store, context.clock)
        let rules = configuration.settlementRules(startedAt: clock.now, context.sealer)
        let wakeupsOfApp = Dictionary(uniqueKeysWithValues: zip(configuration.apps.map(\.name), wakeups))
        self.init(store: store, rules: rules, clock: clock, telemetry: context.telemetry) { batch in
            for app in batch.replenished { wakeupsOfApp[app]?.hint() }
            door?.api.settled()
        }
        try await store.adopt(configuration.clientsOfApps, under: rules, at: clock.now)
        try await breakers.load(from: store)
    }
}
