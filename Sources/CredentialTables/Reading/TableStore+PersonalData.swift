// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    /// All rows that name a user, in one snapshot. It reads the logs from end to end, as `history` does.
    ///
    /// - Parameters:
    ///   - app: only rows of this app; nil for all.
    ///   - isNamed: whether a notification that is not verified names the user.
    package func personalData(
        of userID: String,
        in app: String?,
        where isNamed: @escaping @Sendable (_ payload: [UInt8]) -> Bool
    ) async throws -> PersonalData {
        try await query { connection in
            var data = PersonalData()
            for table in StoredTable.ofUsers {
                let rows = try connection.fetchAll(
                    """
                    SELECT \(sql: table.shownColumns) FROM \(sql: table.name)
                     WHERE \(sql: table.condition) AND \(table.isOfUser(userID, in: app)) ORDER BY \(sql: table.key)
                    """
                )
                try data.tables.append(table.personalData(rows.map(table.shown), on: connection))
            }
            for table in StoredTable.ofPayloads {
                let payload = table.columns.firstIndex { $0.form == .payload } ?? 0
                var rows: [[String: PersonalData.Value]] = []
                var last = Int64.min
                while true {
                    let page = try connection.fetchAll(
                        "SELECT \(sql: table.shownColumns) FROM \(sql: table.name) WHERE id > \(last) ORDER BY id LIMIT 500"
                    )
                    rows += page.filter { isNamed($0.bytes(at: payload)) }.map(table.shown)
                    guard page.count == 500, let id = page.last?.integer(at: 0) else { break }
                    last = id
                }
                try data.tables.append(table.personalData(rows, on: connection))
            }
            return data
        }
    }
}

extension StoredTable {
    fileprivate func personalData(
        _ rows: [[String: PersonalData.Value]],
        on connection: some TableConnection
    ) throws -> PersonalData.Table {
        let greatest = has("id") ? try connection.fetchOne("SELECT MAX(id) FROM \(sql: name)")?.integer(at: 0) : nil
        return PersonalData.Table(name: name, rows: rows, greatestID: greatest ?? 0)
    }
}
