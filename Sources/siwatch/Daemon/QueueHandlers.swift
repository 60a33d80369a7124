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

    init(_ apps: [WatchedApp], _ apple: AppleAccess, _ shared: LaneContext, _ configuration: Configuration) {
        let cores = ProcessInfo.processInfo.activeProcessorCount
        notifications = NotificationHandler(verifier: apple.notificationVerifier, cores: cores, shared)
        grants = GrantHandler(of: configuration.clientIDs, shared)
        codes = CodeHandler(apps: apps.map(\.atWork), verifier: apple.identityTokenVerifier, shared)
        revocations = RevocationHandler(apps: apps.map(\.atWork), shared)
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
