// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTables

extension Connection {
    /// Sessions of others than siwatch that hold a lock which keeps siwatch from reading or writing its tables, for an operator to end.
    ///
    /// Backends hold no such lock by what they may do. An administrator may, and so may a migration of another program.
    func lockHolders(in schema: String) throws -> [String] {
        try rows(
            """
            SELECT DISTINCT 'session ' || a.pid || ' of ' || quote_ident(a.usename)
              FROM pg_locks l
              JOIN pg_stat_activity a ON a.pid = l.pid AND (a.usename, a.application_name) IS DISTINCT FROM (current_user, 'siwatch')
              JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = \(schema)
             WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
             ORDER BY 1
            """
        ).map { $0.text(at: 0) ?? "" }
    }
}
