// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers
import Testing

/// A suite with the trait `.eachStore`: each of its tests runs once on each store.
protocol ConformanceSuite {}

extension ConformanceSuite {
    var kind: StoreKind { EachStore.kind }

    /// A new store for each test.
    var store: StoreUnderTest { EachStore.store }

    func renew(_ configure: (inout Retention) -> Void = { _ in }) throws {
        var retention = Retention()
        configure(&retention)
        let store = try kind.make(retention: retention)
        EachStore.current!.withLockedValue { $0 = store }
    }
}

/// Runs each test of a suite on each store, on PostgreSQL in schemas that other tests have left.
struct EachStore: SuiteTrait, TestTrait, TestScoping {
    @TaskLocal static var kind = StoreKind.file
    @TaskLocal static var current: NIOLockedValueBox<StoreUnderTest>?

    /// That of the running test.
    static var store: StoreUnderTest { current!.withLockedValue { $0 } }

    var isRecursive: Bool { true }

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        let kinds = test.traits.lazy.compactMap { $0 as? OnStores }.last?.kinds ?? StoreKind.allCases
        for kind in kinds {
            let named = IssueHandlingTrait.compactMapIssues { issue in
                var issue = issue
                issue.comments.append("on \(kind)")
                return issue
            }
            try await named.provideScope(for: test, testCase: testCase) {
                do {
                    try await Self.run(on: kind, function)
                } catch {
                    // A failed `#require` has recorded its issue. The other store is tried all the same.
                    if !(error is ExpectationFailedError) { Issue.record(error, sourceLocation: test.sourceLocation) }
                }
            }
        }
    }

    private static func run(on kind: StoreKind, _ function: @Sendable () async throws -> Void) async throws {
        let taken = NIOLockedValueBox<[String]>([])
        defer { SchemaPool.leave(taken.withLockedValue { $0 }) }
        try await SchemaPool.$taken.withValue(taken) {
            let store = NIOLockedValueBox(try kind.make())
            try await $kind.withValue(kind) { try await $current.withValue(store) { try await function() } }
        }
    }
}

/// The stores of a test or a suite that does not run on all.
struct OnStores: SuiteTrait, TestTrait {
    let kinds: [StoreKind]

    var isRecursive: Bool { true }
}

extension Trait where Self == EachStore {
    static var eachStore: Self { Self() }
}

extension Trait where Self == OnStores {
    static func on(_ kinds: StoreKind...) -> Self { Self(kinds: kinds) }
}
