// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// All rows that name one user, table by table.
package struct PersonalData: Sendable, Equatable {
    package struct Table: Sendable, Equatable {
        package var name: String
        /// By column.
        package var rows: [[String: Value]]
        /// The greatest id of the table at the time of the read; 0 for an empty table and for one without ids.
        package var greatestID: Int64

        package init(name: String, rows: [[String: Value]], greatestID: Int64) {
            self.name = name
            self.rows = rows
            self.greatestID = greatestID
        }

        package var ids: [Int64] {
            rows.compactMap { if case .integer(let id) = $0["id"] { id } else { nil } }
        }
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
