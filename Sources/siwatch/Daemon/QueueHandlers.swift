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

/// Wakes the loops over queues.
struct QueueWakeups {
    let codes: Wakeups
    let grants: Wakeups
    let notifications: Wakeups
    let revocations: Wakeups
    let operatorRequests: Wakeups

    /// - Parameter interval: how long a loop sleeps at most.
    init(every interval: Duration) {
        func wakeups() -> Wakeups { Wakeups(every: interval) }
        (codes, grants, notifications) = (wakeups(), wakeups(), wakeups())
        (revocations, operatorRequests) = (wakeups(), wakeups())
    }

    var all: [Wakeups] { [codes, grants, notifications, revocations, operatorRequests] }

    /// Wakes the loops over queues that have new rows.
    func hint(_ queues: Set<Queue>) {
        for queue in queues {
            switch queue {
            case .notification: notifications.hint()
            case .grant:
                codes.hint()
                grants.hint()
            case .revocation: revocations.hint()
            }
        }
    }
}
