// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Counts an app's requests to revoke, and holds the rest once an hour has brought too many. One statement of a backend can ask for every
/// user, and only the user can undo what Apple has revoked. So an operator decides about the first request beyond the bound and all later
/// ones.
package struct RevocationLimit: Sendable, Equatable {
    package var hourBeganAt: Timestamp?
    /// How many requests siwatch has opened in that hour.
    package var opened: Int
    package var reachedAt: Timestamp?
    package var held: Int
    package var authorized: Int

    package init(hourBeganAt: Timestamp? = nil, opened: Int = 0, reachedAt: Timestamp? = nil, held: Int = 0, authorized: Int = 0) {
        (self.hourBeganAt, self.opened, self.reachedAt) = (hourBeganAt, opened, reachedAt)
        (self.held, self.authorized) = (held, authorized)
    }

    /// Whether siwatch may open one more request, or holds it. The bound counts the users that the hour has ended among the authorized
    /// ones. A new hour begins with its first request, so two bounds may come together at its border.
    mutating func letsThrough(under rules: RevocationLimitRules, at now: Timestamp) -> Bool {
        // After a clock that was set back, the hour begins now, with its count.
        if let began = hourBeganAt, now < began.advanced(by: Self.hour) {
            hourBeganAt = min(began, now)
        } else {
            (hourBeganAt, opened) = (now, 0)
        }
        if reachedAt == nil, opened >= rules.bound(authorized: authorized + opened) { reachedAt = now }
        if reachedAt == nil { opened += 1 } else { held += 1 }
        return reachedAt == nil
    }

    private static let hour = Duration.seconds(3600)
}

/// More requests of an app in an hour than `maxPerHour`, and than that percentage of its authorized credentials, reach the revocation limit.
package struct RevocationLimitRules: Sendable, Equatable {
    package var maxPerHour: Int
    package var maxPercentPerHour: Int

    package init(maxPerHour: Int = 50, maxPercentPerHour: Int = 1) {
        self.maxPerHour = maxPerHour
        self.maxPercentPerHour = maxPercentPerHour
    }

    func bound(authorized: Int) -> Int { max(maxPerHour, authorized * maxPercentPerHour / 100) }
}
