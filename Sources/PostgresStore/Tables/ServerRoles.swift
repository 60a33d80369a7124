// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The roles that `Schema.roles` has beside siwatch's own, as an administrator makes them. docs/postgresql.md has the same script.
package enum ServerRoles {
    package static let script = """
        CREATE ROLE siwatch LOGIN PASSWORD 'change me';
        CREATE ROLE siwatch_backend NOLOGIN;        -- all that the next four do
        CREATE ROLE siwatch_reader NOLOGIN;         -- reads the states
        CREATE ROLE siwatch_notifications NOLOGIN;  -- inserts what Apple posts
        CREATE ROLE siwatch_grants NOLOGIN;         -- inserts sign-ins
        CREATE ROLE siwatch_revocations NOLOGIN;    -- inserts requests to revoke
        GRANT pg_read_all_stats TO siwatch;  -- it warns of snapshots that are held for long
        DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO siwatch', current_database()); END $$;
        """
}
