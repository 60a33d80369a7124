// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import ServiceLifecycle

/// Wakes the loops over queues when any process commits, so that a row is handled within milliseconds of its insert.
///
/// The loops over apps' schedules need no such hint: only siwatch changes a schedule, and then wakes the loop itself.
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
        // Before a stop the sequence does not end by itself.
        try? await gracefulShutdown()
    }
}
