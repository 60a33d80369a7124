// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One numbered change of an engine's tables. Both engines have the same numbers. A released step never changes.
package struct SchemaStep: Sendable {
    /// The version of the schema after this step. The first is 1.
    package let version: Int
    /// The oldest version whose programs can work on the result. On a server they may be at work during the step. A file has one program at a
    /// time, so there it does not count.
    package let compatibleFrom: Int
    /// What changes, for operators.
    package let summary: String
    /// The statements, each with its semicolon. They run in one transaction.
    package let sql: String

    package init(version: Int, compatibleFrom: Int, summary: String, sql: String) {
        self.version = version
        self.compatibleFrom = compatibleFrom
        self.summary = summary
        self.sql = sql
    }
}

/// What a migration would do to a database.
package struct MigrationPlan: Sendable {
    /// The version of the schema that is there; nil if there is no siwatch.
    package let found: Int?
    /// The version that this program needs.
    package let needed: Int
    /// The missing statements; empty if none is missing.
    package let script: String

    package init(found: Int?, needed: Int, script: String) {
        self.found = found
        self.needed = needed
        self.script = script
    }
}

extension [SchemaStep] {
    /// The version that the steps end in.
    package var newest: Int { self[count - 1].version }

    /// The steps that a schema of a version lacks. A database without siwatch has no version, and lacks all.
    package func after(_ version: Int?) -> [SchemaStep] {
        filter { $0.version > version ?? 0 }
    }

    /// The statements of all steps, each step under its summary.
    package var script: String {
        map { "-- Step \($0.version): \($0.summary)\n\($0.sql)\n" }.joined()
    }
}
