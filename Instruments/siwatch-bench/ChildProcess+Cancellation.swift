// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation

extension ChildProcess {
    /// Waits for the end of the process, which comes at once where the task is cancelled.
    func end() async throws -> Int32 {
        let status = await withTaskCancellationHandler {
            await exit()
        } onCancel: {
            signal(SIGKILL)
        }
        try Task.checkCancellation()
        return status
    }

    /// Does something with the process while it runs, and ends it: with SIGTERM afterwards, at once where that fails or is cancelled.
    func whileRunning<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            let result = try await withTaskCancellationHandler {
                try await body()
            } onCancel: {
                signal(SIGKILL)
            }
            signal(SIGTERM)
            let status = try await end()
            guard status == 0 else { throw HarnessError("siwatch ended with \(status): \(output.suffix(5).joined(separator: "\n"))") }
            return result
        } catch {
            signal(SIGKILL)
            await exit()
            throw error
        }
    }
}
