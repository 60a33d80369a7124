// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// All rows that name one user, table by table.
package struct PersonalData: Sendable, Equatable {
    package struct Table: Sendable, Equatable {
        package var name: String
        package var rows: [[String: Value]]
        /// The greatest id of the table at the time of the read; 0 for an empty table and for one without ids.
        package var greatestID: Int64

        package init(name: String, rows: [[String: Value]], greatestID: Int64) {
            (self.name, self.rows, self.greatestID) = (name, rows, greatestID)
        }

        package var ids: [Int64] { rows.compactMap { if case .integer(let id) = $0["id"] { id } else { nil } } }
    }

    package enum Value: Sendable, Equatable {
        case absent
        case integer(Int64)
        case flag(Bool)
        case text(String)
        case time(Timestamp)
        /// A token or a code is there. Nobody is shown it.
        case held
    }

    package var tables: [Table] = []

    package init() {}

    package var isEmpty: Bool { tables.allSatisfy(\.rows.isEmpty) }
}

package struct ErasureRequest: Codable, Sendable, Equatable {
    package var userID: String
    /// Only in this app; nil for all.
    package var app: String?
    package var pseudonym: String
    /// Whether to forget a user who is authorized. A token is then lost without being revoked.
    package var evenIfAuthorized: Bool
    /// The rows of logs that a search has found, by table. A search in the transaction would hold up every settlement.
    package var found: [String: [Int64]]
    /// The greatest id of each table at the time of that search.
    package var searchedUpTo: [String: Int64]

    package init(of userID: String, in app: String?, as pseudonym: String, evenIfAuthorized: Bool = false, found data: PersonalData) {
        self.userID = userID
        self.app = app
        self.pseudonym = pseudonym
        self.evenIfAuthorized = evenIfAuthorized
        found = Dictionary(uniqueKeysWithValues: data.tables.map { ($0.name, $0.ids) })
        searchedUpTo = Dictionary(uniqueKeysWithValues: data.tables.map { ($0.name, $0.greatestID) })
    }
}

/// The receipt of an erasure. It names nobody.
package struct Erasure: Codable, Sendable, Equatable {
    package var erasedAt: Timestamp
    package var pseudonym: String
    /// By app, the newest fact that siwatch knew of the user. It takes no fact up to that time any more.
    package var forgottenUntil: [String: Timestamp] = [:]
    package var erasedRows: [String: Int] = [:]
    /// By delivery, how many webhooks about the user were still to be sent at most, and are not.
    package var unsentWebhooks: [String: Int] = [:]
    /// The requests to revoke whose receipts stay, under the pseudonym.
    package var keptReceipts: [Int64] = []

    package init(at time: Timestamp, pseudonym: String) {
        erasedAt = time
        self.pseudonym = pseudonym
    }
}
