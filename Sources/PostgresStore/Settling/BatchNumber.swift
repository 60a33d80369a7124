// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Counts what a process settles, and stands in a row of its own since the commit of that: whoever has not heard the answer to a COMMIT
/// reads it there.
///
/// A row of its own and not the replica's, so that a renewal waits for no commit.
struct BatchNumber {
    let owner: String
    let number: Int64

    /// Makes the row, in a transaction of its own: only what is there can be waited for.
    func makeRow(on connection: Connection, at now: Timestamp) throws {
        try connection.run(
            "INSERT INTO settled_batch (owner, number, settled_at) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING",
            owner,
            now
        )
    }

    func sendWrite(on connection: Connection, at now: Timestamp) throws {
        try connection.send(
            """
            INSERT INTO settled_batch (owner, number, settled_at) VALUES ($1, $2, $3)
                ON CONFLICT (owner) DO UPDATE SET number = excluded.number, settled_at = excluded.settled_at
            """,
            owner,
            number,
            now
        )
    }

    /// Waits for a commit that is under way still; nil where there is no row.
    func isWritten(on connection: Connection) throws -> Bool? {
        try connection.rows("SELECT number FROM settled_batch WHERE owner = $1 FOR UPDATE", owner).first.map { $0.integer(at: 0) == number }
    }
}
