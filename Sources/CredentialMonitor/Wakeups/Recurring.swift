// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ServiceLifecycle

/// Repeats a task until shutdown. A failed turn is reported, and the next turn still comes.
package struct Recurring: Service {
    private let interval: Duration
    private let body: @Sendable () async throws -> Void
    private let onFailure: @Sendable (any Error) -> Void

    package init(
        every interval: Duration,
        onFailure: @escaping @Sendable (any Error) -> Void,
        _ body: @escaping @Sendable () async throws -> Void
    ) {
        self.interval = interval
        self.body = body
        self.onFailure = onFailure
    }

    package func run() async throws {
        for await _ in Wakeups(every: interval).untilShutdown() {
            do {
                try await cancelWhenGracefulShutdown { try await body() }
            } catch is CancellationError {
                // The process ends. The next process goes on with the task.
            } catch {
                onFailure(error)
            }
        }
    }
}
