// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What `status`, the metrics and `explain` ask of a store. Nothing here scans a table.
package protocol CredentialReader: Sendable {
    func queues() async throws -> [QueueStatus]
    func credentialCounts() async throws -> [CredentialCount]
    /// How many credentials of each app Apple had not confirmed for three intervals when it was last asked about them.
    func unverifiedCredentials() async throws -> [String: Int]
    /// How many credentials of each app were due before `time` and still wait, counted up to `limit` each.
    func overdueCredentials(before time: Timestamp, upTo limit: Int) async throws -> [String: Int]
}

package struct QueueStatus: Sendable, Equatable, Codable {
    package var queue: String
    package var depth: Int
    /// When the oldest row arrived, in milliseconds since 1970.
    package var oldest: Int64?

    package init(queue: String, depth: Int, oldest: Int64?) {
        self.queue = queue
        self.depth = depth
        self.oldest = oldest
    }
}

package struct CredentialCount: Sendable, Equatable, Codable {
    package var app: String
    package var state: String
    package var count: Int

    package init(app: String, state: String, count: Int) {
        self.app = app
        self.state = state
        self.count = count
    }
}
