// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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

    /// Wakes all loops, because rows were inserted.
    func hint() {
        for wakeups in all { wakeups.hint() }
    }
}
