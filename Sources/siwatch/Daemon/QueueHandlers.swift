// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

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

    /// In the order in which `run --once` settles their queues.
    var all: [any WorkHandler] { [codes, grants, notifications, revocations] }
}

struct QueueWakeups {
    let codes, grants, notifications, revocations, operatorRequests: Wakeups

    init(every interval: Duration) {
        func wakeups() -> Wakeups { Wakeups(every: interval) }
        (codes, grants, notifications) = (wakeups(), wakeups(), wakeups())
        (revocations, operatorRequests) = (wakeups(), wakeups())
    }

    var all: [Wakeups] { [codes, grants, notifications, revocations, operatorRequests] }

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
