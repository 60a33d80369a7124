// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
internal import ServiceLifecycle

/// Wakes the loops when anybody commits, in whatever process: a row is handled within milliseconds of its insert.
package struct CommitHints: Service {
    private let counter: any CommitCounter
    private let wakeups: [Wakeups]
    private let telemetry: Telemetry

    /// 50 looks a second cost well under 1 % of a core and find a commit within 20 ms.
    static let interval = Duration.milliseconds(20)

    package init(counter: any CommitCounter, wakeups: [Wakeups], telemetry: Telemetry) {
        self.counter = counter
        self.wakeups = wakeups
        self.telemetry = telemetry
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var last: Int?
            while !Task.isCancelled {
                do {
                    let count = try await counter.commitCount()
                    if let last, last != count { for wakeup in wakeups { wakeup.hint() } }
                    last = count
                } catch {
                    // The timers still wake the loops.
                    telemetry.watchFailed(error)
                    try await Task.sleep(for: .seconds(1))
                }
                try await Task.sleep(for: Self.interval)
            }
        }
    }
}
