// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import DaemonHarness
import UnixSignals

/// Runs `body` until it is done, the time is up or somebody wants the terminal back; then it is cancelled and cleans up behind itself.
func bounded<Result: Sendable>(by limit: Duration, _ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
    try await withThrowingTaskGroup(of: Result.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit)
            throw HarnessError("not done after \(limit)")
        }
        group.addTask {
            for await signal in await UnixSignalsSequence(trapping: .sigint, .sigterm) {
                throw ExitCode(128 + (signal == .sigint ? 2 : 15))
            }
            throw CancellationError()
        }
        defer { group.cancelAll() }
        return try await group.next()!
    }
}
