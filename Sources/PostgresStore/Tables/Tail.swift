// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The tail: what all settlements share, written last and in one flight with the COMMIT, under one lock.
///
/// Ids of the change feed are given out under it and become visible in their order, so that nobody who follows by `id > :last_seen` misses
/// one. It is the last of all locks, so that nobody holds it and waits.
enum Tail {
    /// SQL: takes the lock, of this schema alone.
    static let lock = "pg_advisory_xact_lock(1397315393, 'credential_change'::regclass::oid::integer)"
}

extension Connection {
    /// For whoever asks for rows under it: who stalls meanwhile holds the others up for no longer than this.
    func lockTail() throws {
        try send("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        try send("SELECT \(Tail.lock)")
    }

    /// Under the lock on the tail.
    func sendAdd(_ amount: Int, to counter: String) throws {
        guard amount != 0 else { return }
        try send(
            """
            INSERT INTO counter AS c (name, value) VALUES ($1, $2)
                ON CONFLICT (name) DO UPDATE SET value = c.value + excluded.value
            """,
            counter,
            amount
        )
    }

    /// Under the lock on the tail.
    func sendSet(_ counter: String, to value: Int64) throws {
        try send(
            "INSERT INTO counter (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            counter,
            value
        )
    }
}
