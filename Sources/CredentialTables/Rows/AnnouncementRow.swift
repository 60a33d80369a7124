// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// An entry of the change feed as a row of `credential_change`.
extension Announcement {
    /// SQL: the columns of `values`.
    package static let columns = """
        app, client_id, user_id, source, notification_jti, recorded_at, occurred_at, kind, from_state, to_state, reason, email,
        email_forwarding
        """

    package static let insert = """
        INSERT INTO credential_change (\(columns)) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
        """

    package func values(at now: Timestamp) -> [ColumnValue] {
        let cause: [ColumnValue] = [
            app.columnValue, .text(credential.clientID), .text(credential.userID), .text(source.rawValue), .text(tokenID),
        ]
        let none = ColumnValue.text(nil)
        let what: [ColumnValue] =
            switch change {
            case .state(let from, let to, let reason, let time):
                [time.columnValue, .text("state"), .text(from?.rawValue), .text(to.rawValue), .text(reason.rawValue), none, none]
            case .email(let address, let forwarding, let time):
                [time.columnValue, .text("email"), none, none, none, .text(address?.text), .text(forwarding?.rawValue)]
            }
        return cause + [now.columnValue] + what
    }
}
