// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The tail: what all settlements share, written last and in one flight with the COMMIT, under one lock.
///
/// Ids of the change feed are given out under it and become visible in their order, so that nobody who follows by `id > :last_seen` misses
/// one. It is the last of all locks, so that nobody holds it and waits.
enum SettlementLock {
    /// SQL: takes the lock, of this schema alone.
    static let lock = "pg_advisory_xact_lock(1397315393, 'credential_change'::regclass::oid::integer)"
}

extension Connection {
    /// For whoever asks for rows under it: who stalls meanwhile holds the others up for no longer than this.
    package func lockSettlements() throws {
        try send("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        try send("SELECT \(SettlementLock.lock)")
    }
}
