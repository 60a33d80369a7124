// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// The handlers of the rows that backends insert, for all apps.
struct QueueHandlers {
    let notifications: NotificationHandler
    let grants: GrantHandler
    let codes: CodeHandler
    let revocations: RevocationHandler

    init(
        _ apps: [WatchedApp],
        _ apple: AppleAccess,
        _ writer: SettlementWriter,
        _ signInRush: SignInRush,
        _ context: DaemonContext
    ) {
        let (configuration, clock, telemetry) = (context.configuration, context.clock, context.telemetry)
        notifications = NotificationHandler(
            store: context.store,
            verifier: apple.notificationVerifier,
            clock: clock,
            cores: ProcessInfo.processInfo.activeProcessorCount,
            signInRush: signInRush
        )
        grants = GrantHandler(
            store: context.store,
            sealer: context.sealer,
            clients: configuration.clientIDs,
            clock: clock,
            clockGuard: context.clockGuard,
            intake: writer.intake,
            telemetry: telemetry
        )
        codes = CodeHandler(
            apps: apps.map(\.atWork),
            store: context.store,
            verifier: apple.identityTokenVerifier,
            sealer: context.sealer,
            policy: configuration.refreshPolicy,
            breakers: writer.breakers,
            clock: clock,
            clockGuard: context.clockGuard,
            signInRush: signInRush,
            telemetry: telemetry
        )
        revocations = RevocationHandler(
            apps: apps.map(\.atWork),
            store: context.store,
            sealer: context.sealer,
            policy: configuration.refreshPolicy,
            breakers: writer.breakers,
            clock: clock,
            clockGuard: context.clockGuard,
            telemetry: telemetry
        )
    }

    var lanes: [Lane] { [notifications.lane, grants.lane, codes.lane, revocations.lane] }
}
