// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// A suite about rejections that siwatch does not believe at once.
protocol RejectionSuite: ConformanceSuite {}

extension RejectionSuite {
    static var asked: Timestamp { .start + .days(2) }
    static var settled: Timestamp { asked + .seconds(1) + .minutes(15) }

    func rejected(users: String...) async throws {
        for user in users.isEmpty ? ["user"] : users {
            try await store.signIn(user, token: user, isAccepted: true)
            #expect(try await store.reject(user, at: Self.asked) == .refreshed)
        }
    }

    func pending() async throws -> Int { try await store.ports.apps()[0].pending }
}
