// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialTables
import PostgresStore
import SQLiteStore

/// The migration of a release that does not exist: it has one step more than this one. Tests kill it in the middle of that step.
@main struct Next: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "siwatch-next",
        abstract: "Brings a database one step beyond this release, for tests."
    )

    @Option(help: "The SQLite file.")
    var file: String?

    @Option(help: "The PostgreSQL server.")
    var server: String?

    @Option(help: "The schema on the server.")
    var schema = "siwatch"

    /// Widens tables, then writes for some seconds.
    private var step: SchemaStep {
        let version = DatabaseFile(path: "").newestVersion + 1
        return SchemaStep(
            version: version,
            compatibleFrom: version - 1,
            summary: "a step of tests",
            sql: """
                ALTER TABLE credential ADD COLUMN another INT NOT NULL DEFAULT 7;
                ALTER TABLE grant_queue ADD COLUMN another INT;
                CREATE TABLE next_step (number INT PRIMARY KEY, text TEXT NOT NULL);
                INSERT INTO next_step
                  WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 1000000)
                  SELECT number, 'abcdefghijklmnopqrstuvwxyz' FROM numbers;
                """
        )
    }

    func run() throws {
        if let file { try SQLiteStore.open(DatabaseFile(path: file, nextSteps: [step])).close() }
        if let server { _ = try PostgresStore.open(PostgresAddress(server, schema: schema), nextSteps: [step]) }
    }
}
