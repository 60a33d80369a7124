// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    /// In one snapshot. It reads the logs from end to end, as `history` does.
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

/// The tables with personal data: their rows have a `user_id`, or a payload that may name a user.
extension StoredTable {
    static let ofUsers = all.filter { $0.has("user_id") }
    static let ofPayloads = all.filter { ["notification_queue", "notification_quarantine"].contains($0.name) }

    /// The tables that hold work. Their rows go when they are settled.
    var isQueue: Bool { ["notification_queue", "grant_queue", "revocation_queue", "revocation"].contains(name) }

    /// SQL: which rows of a queue wait for a user. A request that is opened has tokens in `revocation`.
    func isWaiting(for userID: String, in app: String?) -> SQL {
        "\(sql: has("opened_at") ? "opened_at IS NULL AND" : "") \(isOfUser(userID, in: app))"
    }

    func has(_ column: String) -> Bool { columns.contains { $0.name == column } }

    func isOfUser(_ userID: String, in app: String?) -> SQL {
        guard let app else { return "user_id = \(userID)" }
        let clients: SQL = "FROM client JOIN app ON app.id = client.app WHERE app.name = \(app)"
        let isOfApp: SQL =
            if has("client_id") {
                "client_id IN (SELECT client.client_id \(clients))"
            } else if has("client") {
                "client IN (SELECT client.id \(clients))"
            } else {
                "app IN (SELECT id FROM app WHERE name = \(app))"
            }
        return "user_id = \(userID) AND \(isOfApp)"
    }

    /// SQL: the columns for people. Names stand in place of the small numbers of apps and clients.
    var shownColumns: String {
        columns.map { column in
            switch (column.name, column.form) {
            case ("app", .integer): "(SELECT name FROM app a WHERE a.id = \(name).app) AS app"
            case ("client", _): "(SELECT client_id FROM client c WHERE c.id = \(name).client) AS client_id"
            default: column.name
            }
        }.joined(separator: ", ")
    }

    func shown(_ row: some FetchedRow) -> [String: PersonalData.Value] {
        var shown: [String: PersonalData.Value] = [:]
        for (index, column) in columns.enumerated() {
            let name = column.name == "client" ? "client_id" : column.name
            shown[name] = row.isNull(at: index) ? .absent : column.shown(row, at: index)
        }
        return shown
    }
}

extension StoredTable.Column {
    fileprivate func shown(_ row: some TableRow, at index: Int) -> PersonalData.Value {
        if isSecret { return .held }
        switch form {
        case _ where ["app", "client"].contains(name): return .text(row.text(at: index) ?? "")
        case .integer where isTime: return .time(Timestamp(milliseconds: row.integer(at: index)))
        case .integer(1): return .flag(row.bool(at: index))
        case .integer: return .integer(row.integer(at: index))
        case .text, .payload: return .text(String(decoding: row.bytes(at: index), as: UTF8.self))
        case .bytes: return .text(row.bytes(at: index).map(\.hexadecimal).joined())
        }
    }

    private var isSecret: Bool {
        ["sealed_token", "former_sealed", "token_sealed", "refresh_token", "authorization_code"].contains(name)
    }

    private var isTime: Bool {
        name.hasSuffix("_at") || name.hasSuffix("_since") || name.hasSuffix("_date") || name == "event_time"
    }
}
