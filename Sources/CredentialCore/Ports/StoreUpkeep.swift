// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Regular upkeep of a store, with or without work in its queues.
package protocol StoreUpkeep: Sendable {
    /// Deletes rows past their retention. Needs a time that can be trusted.
    ///
    /// - Parameter pseudonymizer: names the users that siwatch forgets.
    func forget(at now: Timestamp, naming pseudonymizer: any UserPseudonymizer) async throws

    /// Makes erased data unreadable in the files too.
    func sweep(at now: Timestamp) async throws

    /// Looks at the rejections that were believed an hour ago or earlier.
    ///
    /// - Returns: how many of them had no notification, by app. Each counts once.
    func countMissedNotifications(at now: Timestamp) async throws -> [String: Int]

    /// Lets the breakers forget blamed clients and rejected canaries without a token to ask about, because no good answer could come.
    ///
    /// - Returns: whether there were any.
    func forgetDryCauses(at now: Timestamp) async throws -> Bool

    /// Brings forward checks that are due later than the interval allows, because the interval was longer before. It spreads them over the
    /// interval, and none comes sooner after Apple's last answer than the interval allows.
    func shortenSchedule(to policy: RefreshPolicy, at now: Timestamp) async throws

    /// Notes that a copy of the database was made.
    func noteBackup(at now: Timestamp) async throws

    /// Since when a reader has kept erased data readable in the log; nil if none does.
    var logPinnedSince: Timestamp? { get async throws }
}
