// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Dispatch
import Foundation
import UnixSignals

package struct HarnessError: Error, CustomStringConvertible {
    package var description: String

    package init(_ description: String) { self.description = description }
}

/// Waits for what tells nobody that it happens: looks every 20 ms until a condition holds.
package func eventually(_ isMet: () async throws -> Bool) async throws {
    while try await !isMet() { try await Task.sleep(for: .milliseconds(20)) }
}

/// How long a test is that proves the same with less.
package enum Length {
    /// Whether `make test-full` runs the tests.
    package static let isFull = ProcessInfo.processInfo.environment["SIWATCH_TEST_FULL"] != nil
    /// Whether tests that a person at work does not wait for run too: in CI, and in their own targets, which set a variable.
    package static func isLong(_ variable: String = "CI") -> Bool {
        ["CI", "SIWATCH_TEST_FULL", variable].contains { ProcessInfo.processInfo.environment[$0] != nil }
    }

    /// - Returns: `short`, or `full` if `make test-full` runs the tests.
    package static func of<Value>(_ short: Value, full: Value) -> Value { isFull ? full : short }
}

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
            for await signal in await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup) { throw ExitCode(128 + signal.rawValue) }
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
