// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// One row of an answer. Columns count from 0.
package protocol TableRow {
    func isNull(at column: Int) -> Bool
    /// 0 for NULL. True is 1, and false is 0.
    func integer(at column: Int) -> Int64
    /// The bytes of a text as well. Empty for NULL.
    func bytes(at column: Int) -> [UInt8]
    /// Nil for NULL. Bytes that are no UTF-8 are replaced.
    func text(at column: Int) -> String?
}

extension TableRow {
    package func int(at column: Int) -> Int { Int(integer(at: column)) }

    /// False for NULL.
    package func bool(at column: Int) -> Bool { integer(at: column) != 0 }

    package func time(at column: Int) -> Timestamp? {
        isNull(at: column) ? nil : Timestamp(milliseconds: integer(at: column))
    }
}

/// A row that outlives its statement, and knows the names of its columns.
package protocol FetchedRow: TableRow {
    /// - Returns: nil where no column has this name.
    func index(of column: String) -> Int?
}
