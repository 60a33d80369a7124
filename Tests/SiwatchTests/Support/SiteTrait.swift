// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Testing

/// The site of the running test, which has the trait `.site`.
var site: Site { SiteTrait.site! }

/// Sets a site up for a test, and takes it down afterwards. A test with several databases runs once on each.
struct SiteTrait: TestTrait, TestScoping {
    @TaskLocal fileprivate static var site: Site?

    let databases: [SiteDatabase]
    let listen: String
    let tables: [String: String]

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        for database in databases {
            let named = IssueHandlingTrait.compactMapIssues { issue in
                var issue = issue
                issue.comments.append("on \(database)")
                return issue
            }
            try await named.provideScope(for: test, testCase: testCase) {
                do {
                    try await Site.$migrate.withValue({ try await $0.succeed("migrate") }) {
                        try await Site.with(on: database, listen: listen, tables) { site in
                            try await Self.$site.withValue(site) { try await function() }
                        }
                    }
                } catch {
                    // A failed `#require` has recorded its issue. The other database is tried all the same.
                    if !(error is ExpectationFailedError) { Issue.record(error, sourceLocation: test.sourceLocation) }
                }
            }
        }
    }
}

extension Trait where Self == SiteTrait {
    static var site: Self { site() }

    static func site(on database: SiteDatabase = .file, listen: String = "", _ tables: [String: String] = [:]) -> Self {
        site(onEach: [database], listen: listen, tables)
    }

    static func site(onEach databases: [SiteDatabase], listen: String = "", _ tables: [String: String] = [:]) -> Self {
        Self(databases: databases, listen: listen, tables: tables)
    }
}
