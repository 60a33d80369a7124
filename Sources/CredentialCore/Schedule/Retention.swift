// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package struct Retention: Sendable, Equatable {
    package var notificationLog = Duration.days(90)
    package var quarantine = Duration.days(365)
    package var changes = Duration.days(365)
    package var grantLog = Duration.days(90)
    package var revocationLog = Duration.days(365)
    /// How long the row of a user who has ended stays; nil for ever.
    package var endedUser: Duration?
    /// How long the address of a user who has ended stays, and an address in `credential_change`; nil for as long as its row.
    package var address: Duration?
    /// How long Apple's messages stay in the rows of `notification_log`.
    package var payload = Duration.days(90)
    /// How long a rejected token stays sealed. Until then an operator can undo a mistake by asking Apple again.
    package var rejectedToken = Duration.days(7)

    package init() {}
}
