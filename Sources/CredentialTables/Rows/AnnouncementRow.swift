// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension Announcement {
    /// The columns of `values`: all but the id, in the order of the table.
    package static let columnNames = Array(StoredTable.credentialChange.columnNames[1...])
    package static let columns = columnNames.joined(separator: ", ")

    func insert(at now: Timestamp) -> SQL { "INSERT INTO credential_change (\(sql: Self.columns)) VALUES (\(values: values(at: now)))" }

    func values(at now: Timestamp) -> [ColumnValue] {
        let none = ColumnValue.text(nil)
        var values = [app.columnValue, credential.clientID.columnValue, credential.userID.columnValue]
        switch change {
        case .state(let from, let to, let reason, let time):
            let state = [ColumnValue.text("state"), .text(from?.rawValue), .text(to.rawValue), .text(reason.rawValue), none, none]
            values += state + [.text(source.rawValue), .text(tokenID), time.columnValue]
        case .email(let address, let forwarding, let time):
            let email = [ColumnValue.text("email"), none, none, none, .text(address?.text), .text(forwarding?.rawValue)]
            values += email + [.text(source.rawValue), .text(tokenID), time.columnValue]
        }
        return values + [now.columnValue]
    }
}
