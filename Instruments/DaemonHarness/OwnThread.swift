// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Dispatch

/// A thread for tasks that block it, so that they do not take one of the few that all other tasks of the process share.
package final class OwnThread: TaskExecutor {
    // A serial queue gets a thread of its own, however many others are blocked.
    private let queue = DispatchQueue(label: "OwnThread")

    package init() {}

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
