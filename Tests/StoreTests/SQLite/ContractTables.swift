// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The tables that backends write, as the contract prints them.
enum ContractTables {
    static let sql = """
        CREATE TABLE notification_queue (
          id          INTEGER PRIMARY KEY AUTOINCREMENT,
          payload     TEXT    NOT NULL CHECK (length(CAST(payload AS BLOB)) BETWEEN 1 AND 65536),
          received_at INTEGER NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                              CHECK (received_at BETWEEN 1546300800000 AND 4102444800000),
          due_at      INTEGER NOT NULL DEFAULT 0,
          attempts    INTEGER NOT NULL DEFAULT 0,
          claimed_by  TEXT
        ) STRICT;

        CREATE TABLE grant_queue (
          id                 INTEGER PRIMARY KEY AUTOINCREMENT,
          client_id          TEXT    NOT NULL CHECK (client_id <> '' AND instr(client_id, char(0)) = 0),
          user_id            TEXT    CHECK (user_id <> '' AND instr(user_id, char(0)) = 0),
          refresh_token      TEXT    CHECK (refresh_token <> '' AND instr(refresh_token, char(0)) = 0),
          authorization_code TEXT    CHECK (authorization_code <> '' AND instr(authorization_code, char(0)) = 0),
          redirect_uri       TEXT,
          email              TEXT,
          email_is_private   INTEGER CHECK (email_is_private IN (0, 1)),
          granted_at         INTEGER NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                                     CHECK (granted_at BETWEEN 1546300800000 AND 4102444800000),
          due_at             INTEGER NOT NULL DEFAULT 0,
          attempts           INTEGER NOT NULL DEFAULT 0,
          claimed_by         TEXT,
          CHECK (refresh_token IS NULL OR authorization_code IS NULL),
          CHECK (user_id IS NOT NULL OR authorization_code IS NOT NULL)
        ) STRICT;

        CREATE TABLE revocation_queue (
          id           INTEGER PRIMARY KEY AUTOINCREMENT,
          client_id    TEXT    NOT NULL CHECK (client_id <> '' AND instr(client_id, char(0)) = 0),
          user_id      TEXT    NOT NULL CHECK (user_id <> '' AND instr(user_id, char(0)) = 0),
          requested_at INTEGER NOT NULL DEFAULT (CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
                               CHECK (requested_at BETWEEN 1546300800000 AND 4102444800000),
          due_at       INTEGER NOT NULL DEFAULT 0,
          attempts     INTEGER NOT NULL DEFAULT 0,
          claimed_by   TEXT
        ) STRICT;
        """
}
