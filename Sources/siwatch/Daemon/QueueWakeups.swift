// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

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
