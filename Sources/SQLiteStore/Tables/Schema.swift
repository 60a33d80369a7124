// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables

/// The tables and views of a file.
enum Schema {
    /// "SIWA": tells siwatch's files from every other SQLite database.
    static let applicationID: Int32 = 0x5349_5741

    static let tables = Tables(.sqlite)
    static let steps = tables.steps(tables.definitions + tables.views)
}
