// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension Schema {
    /// Several siwatch on one database. Each has a name, which stands on the rows that it has claimed. All times are by the server's clock.
    static let fleet = """
        CREATE TABLE replica (
          owner      TEXT   COLLATE "C" PRIMARY KEY,
          started_at BIGINT NOT NULL,
          seen_at    BIGINT NOT NULL,
          -- What it is and which lanes it could own, as JSON.
          replica    TEXT   NOT NULL,
          lanes      TEXT   NOT NULL
        ) WITH (fillfactor = 10);

        -- Who asks Apple for an app, and, without a name, who keeps house.
        CREATE TABLE lane (
          app   TEXT   COLLATE "C" PRIMARY KEY,
          owner TEXT   COLLATE "C" NOT NULL DEFAULT '',
          -- How many owners it has had.
          epoch BIGINT NOT NULL DEFAULT 0,
          until BIGINT NOT NULL DEFAULT 0
        ) WITH (fillfactor = 10);

        -- The last batch that each has settled.
        CREATE TABLE settled_batch (
          owner      TEXT   COLLATE "C" PRIMARY KEY,
          number     BIGINT NOT NULL,
          settled_at BIGINT NOT NULL
        ) WITH (fillfactor = 10);

        """
}
