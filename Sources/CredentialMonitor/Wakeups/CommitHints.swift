// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import ServiceLifecycle

/// Wakes the loops over queues when any process commits, so that siwatch handles a row within milliseconds of its insert.
///
/// The loops over apps' schedules get no hint here: only siwatch changes a schedule, and the code that changes one wakes its loop.
package struct CommitHints: Service {
    private let watch: any CommitWatch
    private let wakeups: [Wakeups]

    package init(_ watch: any CommitWatch, wakeups: [Wakeups]) {
        self.watch = watch
        self.wakeups = wakeups
    }

    package func run() async throws {
        for await _ in watch.commits().cancelOnGracefulShutdown() {
            for wakeup in wakeups { wakeup.hint() }
        }
        // The sequence can end before a stop, but the service must not.
        try? await gracefulShutdown()
    }
}
