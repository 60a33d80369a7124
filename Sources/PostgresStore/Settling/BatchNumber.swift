// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTables

/// The number of a process's last settled batch. It is committed with the batch. A process that has not heard the answer to a COMMIT reads
/// the number.
///
/// It has a row of its own and not the replica's, so that a renewal waits for no commit.
struct BatchNumber {
    let owner: String
    let number: Int64

    /// Makes the row in a separate transaction, because a reader can only wait for a row that exists.
    func makeRow(on connection: Connection, at now: Timestamp) throws {
        try connection.change("INSERT INTO settled_batch (owner, number, settled_at) VALUES (\(owner), 0, \(now)) ON CONFLICT DO NOTHING")
    }

    func sendWrite(on connection: Connection, at now: Timestamp) throws {
        try connection.send(
            """
            INSERT INTO settled_batch (owner, number, settled_at) VALUES (\(owner), \(number), \(now))
                ON CONFLICT (owner) DO UPDATE SET number = excluded.number, settled_at = excluded.settled_at
            """
        )
    }

    /// Whether the number is committed. Waits for a commit that is still under way. Nil if there is no row.
    func isWritten(on connection: Connection) throws -> Bool? {
        try connection.rows("SELECT number FROM settled_batch WHERE owner = \(owner) FOR UPDATE").first.map { $0.integer(at: 0) == number }
    }
}
