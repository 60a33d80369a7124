// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

@testable import PostgresStore

@Suite(.eachStore, .on(.postgres), .timeLimit(.minutes(5))) struct ResealingLockTests: ConformanceSuite {
    /// A settlement may hold the row for long, and wait for others.
    @Test func aRowThatSomebodyHoldsIsLeftForTheNextWalk() async throws {
        for user in ["ann", "bob", "eve"] { try await store.signIn(user, token: "r-\(user)") }
        func reseal() async throws -> [Int] {
            let ring = PlainSealer { ["knew", PlainSealer.onlyKey] }
            var (resealed, left) = (0, 0)
            while true {
                let portion = try await store.ports.reseal(upTo: 10) { blob in
                    guard case .token(let sealed, let credential, let grantedAt) = blob else { return nil }
                    return try ring.reseal(sealed, for: credential, grantedAt: grantedAt)?.bytes
                }
                resealed += portion.resealed
                left += portion.left
                if portion.isDone { return [resealed, left] }
            }
        }
        let other = ConnectionThread(store.postgres.address, label: "other")
        try await other.begin("SELECT 1 FROM credential WHERE user_id = 'ann' FOR UPDATE")
        #expect(try await reseal() == [2, 1])
        try await other.commit(after: [])
        await other.close()
        #expect(try await reseal() == [1, 0])
    }
}
