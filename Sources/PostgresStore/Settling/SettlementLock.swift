// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables

/// The tail: the rows that all settlements share. A settlement writes them last, in one flight with the COMMIT, under one lock.
///
/// The lock gives out the ids of the change feed, and makes them visible in their order. So a reader that follows by `id > :last_seen`
/// misses none. It is the last of all locks, so its holder waits for no other.
///
/// It is a row that only siwatch's own user may lock. Anybody who may connect to the database could hold an advisory lock.
enum SettlementLock {
    /// SQL: takes the lock of this schema. It gives one row, whether the lock's own row is there or not.
    static let lock: SQL = "SELECT COUNT(*) FROM (SELECT FROM schema_version FOR UPDATE) held"
}

extension Connection {
    /// Takes the lock for a transaction that asks for rows under it. A holder that stalls blocks the others for at most 5 seconds.
    package func lockSettlements() throws {
        try send("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        try send(SettlementLock.lock)
    }
}
