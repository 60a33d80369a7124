// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import ServiceLifecycle

/// Wakes the loops over queues when anybody commits, in whatever process: a row is handled within milliseconds of its insert.
///
/// The schedules of apps are nobody's but ours, and whoever changes one wakes its loop.
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
        // Before a stop the sequence has no end of its own.
        try? await gracefulShutdown()
    }
}
