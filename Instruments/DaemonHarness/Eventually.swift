// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Waits for what tells nobody that it happens: looks every 20 ms until a condition holds.
///
/// - Throws: what the look throws, or `CancellationError` if the task is cancelled before that.
package func eventually(_ isMet: () async throws -> Bool) async throws {
    while try await !isMet() { try await Task.sleep(for: .milliseconds(20)) }
}
