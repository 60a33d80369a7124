// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import CredentialMonitor

extension SettlementWriter {
    /// The writer by the rules of a configuration, with the breakers as the store has kept them.
    ///
    /// - Parameters:
    ///   - wakeups: of the apps' loops, in the order of the configuration. A commit that brings an app new tokens wakes its loop.
    ///   - door: looks for the outcomes of sign-ins after each commit.
    /// - Throws: `StoreError`
    convenience init(
        waking wakeups: [Wakeups],
        _ door: HTTPDoor?,
        _ context: DaemonContext
    ) async throws {
        let (configuration, store, clock) = (context.configuration, context.store, context.clock)
        let rules = configuration.settlementRules(startedAt: clock.now, context.sealer)
        let wakeupsOfApp = Dictionary(uniqueKeysWithValues: zip(configuration.apps.map(\.name), wakeups))
        self.init(
            store: store,
            rules: rules,
            clock: clock,
            telemetry: context.telemetry
        ) { batch in
            for app in batch.replenished { wakeupsOfApp[app]?.hint() }
            door?.api.settled()
        }
        try await store.adopt(configuration.clientsOfApps, under: rules, at: clock.now)
        try await breakers.load(from: store)
    }
}
