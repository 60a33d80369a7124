// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// One row of an answer. Columns count from 0.
package protocol TableRow {
    func isNull(at column: Int) -> Bool
    /// 0 for NULL. True is 1, and false is 0.
    func integer(at column: Int) -> Int64
    /// The bytes of a column, also of a text column. Empty for NULL.
    func bytes(at column: Int) -> [UInt8]
    /// Nil for NULL. Replaces bytes that are not UTF-8.
    func text(at column: Int) -> String?
}

extension TableRow {
    /// A number between -2^40 and 2^40. A writer of the file can put any other number there, and sums must not overflow.
    package func int(at column: Int) -> Int { Int(min(max(integer(at: column), -(1 << 40)), 1 << 40)) }

    /// A number that siwatch counts.
    package func count(at column: Int) -> Int { max(int(at: column), 0) }

    /// False for NULL.
    package func bool(at column: Int) -> Bool { integer(at: column) != 0 }

    package func time(at column: Int) -> Timestamp? {
        isNull(at: column) ? nil : Timestamp(milliseconds: integer(at: column))
    }
}

/// A row that stays valid after its statement, and knows its column names.
package protocol FetchedRow: TableRow {
    /// - Returns: nil if no column has this name.
    func index(of column: String) -> Int?
}
