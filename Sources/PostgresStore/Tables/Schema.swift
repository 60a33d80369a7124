// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables

/// The tables and views of a server.
enum Schema {
    static let tables = Tables(.postgres)
    static let v1 = tables.definitions + fleet + tables.views + triggers
    static let steps = tables.steps(v1)

    /// The names that the steps leave.
    static let tablesAndViews = steps.map(\.sql).joined().matches(of: /(CREATE|DROP) (?:TABLE|VIEW) (\w+)/).reduce(into: [String]()) {
        names,
        match in
        names.removeAll { $0 == match.2 }
        if match.1 == "CREATE" { names.append(String(match.2)) }
    }

    /// SQL: the server's clock.
    static let now = tables.now
}
