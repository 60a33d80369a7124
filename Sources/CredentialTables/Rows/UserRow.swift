// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The columns of `user_event`, which holds a user's registers, in the order of the table.
extension AppUser {
    static let keyColumns = Array(StoredTable.userEvent.columnNames[..<2])
    static let valueColumns = Array(StoredTable.userEvent.columnNames[2...])

    /// - Parameter row: `valueColumns`, from the given index on.
    init(_ row: some TableRow, from start: Int) {
        self.init()
        consentRevokedAt = row.time(at: start)
        deletedAt = row.time(at: start + 1)
        revokedAt = row.time(at: start + 2)
        if let at = row.time(at: start + 3), let rank = Mailbox.Rank(rawValue: row.int(at: start + 4)) {
            let isPrivate = row.isNull(at: start + 6) ? nil : row.bool(at: start + 6)
            mailbox = Mailbox(at: at, rank: rank, address: EmailAddress(row.text(at: start + 5) ?? "", isPrivate: isPrivate))
        }
        if let at = row.time(at: start + 7), let status = row.text(at: start + 8).flatMap(Forwarding.Status.init) {
            forwarding = Forwarding(at: at, status: status)
        }
    }

    /// The values of all columns.
    func values(user userID: String, app: Int64) -> [ColumnValue] {
        [
            userID.columnValue,
            app.columnValue,
            consentRevokedAt.columnValue,
            deletedAt.columnValue,
            revokedAt.columnValue,
            mailbox?.at.columnValue ?? Timestamp.null,
            mailbox?.rank.rawValue.columnValue ?? Int.null,
            mailbox?.address.text.columnValue ?? String.null,
            (mailbox?.address.isPrivate.map { $0 ? 1 : 0 }).columnValue,
            forwarding?.at.columnValue ?? Timestamp.null,
            forwarding?.status.rawValue.columnValue ?? String.null,
        ]
    }
}
