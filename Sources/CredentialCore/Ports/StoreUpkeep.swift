// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What is done to a store now and then, whether there is work or not.
package protocol StoreUpkeep: Sendable {
    /// Deletes what has passed its retention. Only at a time that can be trusted.
    func forget(at now: Timestamp) async throws

    /// Makes what was erased unreadable in the files too.
    func sweep(at now: Timestamp) async throws

    /// Looks at the rejections that were believed an hour ago or earlier.
    ///
    /// - Returns: of how many of them no notification has come, by app. Each is counted once.
    func countMissedNotifications(at now: Timestamp) async throws -> [String: Int]

    /// Lets the breakers forget blamed clients of which no token is left to ask about: no good answer could ever come.
    ///
    /// - Returns: whether there were any.
    func forgetDryClients(at now: Timestamp) async throws -> Bool

    /// Brings checks forward that are due later than the interval allows, because it was longer before. They are spread over the interval,
    /// and none comes sooner after Apple's last answer than the interval says.
    func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws

    /// Since when a reader has kept what was erased readable in the log; nil where nothing is.
    var logPinnedSince: Timestamp? { get async throws }
}
