// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import UnixSignals

/// Runs `body` until it returns, the time is up or a signal asks the process to end. Then it cancels `body`, which cleans up.
///
/// - Throws: an `ExitCode` of 128 plus the signal, if a signal ended it.
package func interruptible<Result: Sendable>(
    within limit: Duration? = nil,
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    try await withThrowingTaskGroup(of: Result.self) { group in
        group.addTask { try await body() }
        group.addTask {
            for await signal in await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup) {
                throw ExitCode(128 + signal.rawValue)
            }
            throw CancellationError()
        }
        if let limit {
            group.addTask {
                try await Task.sleep(for: limit)
                throw HarnessError("not done after \(limit)")
            }
        }
        defer { group.cancelAll() }
        return try await group.next()!
    }
}
