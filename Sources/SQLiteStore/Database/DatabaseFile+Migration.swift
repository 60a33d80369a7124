// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialTables
import GRDB

extension DatabaseFile {
    /// The version of the newest schema that this program knows.
    package var newestVersion: Int { steps.newest }

    /// Whether the file is a siwatch's.
    ///
    /// - Throws: `outdated` if a migration has to come first.
    package func exists(isInUse: Bool = false) throws(Unusable) -> Bool {
        guard case .siwatch(let version) = try inspect(isInUse: isInUse) else { return false }
        guard version == steps.newest else { throw .outdated(path: path, version: version) }
        return true
    }

    /// What a migration would do to the file. Writes no byte.
    package func migrationPlan(isInUse: Bool) throws(Unusable) -> MigrationPlan {
        let found: Int? = if case .siwatch(let version) = try inspect(isInUse: isInUse) { version } else { nil }
        return MigrationPlan(found: found, needed: steps.newest, script: steps.after(found).script)
    }

    /// Runs the missing steps, each in a transaction of its own. If the process is killed, the next migration goes on after the last whole
    /// step. The caller holds the lock on the database.
    func migrate(_ writer: some DatabaseWriter) throws {
        var migrator = DatabaseMigrator()
        for step in steps {
            migrator.registerMigration("v\(step.version)") { db in
                try db.execute(sql: step.sql)
                try db.execute(sql: "PRAGMA application_id = \(Schema.applicationID); PRAGMA user_version = \(step.version)")
            }
        }
        try migrator.migrate(writer)
    }
}
