// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Apple's keys survive restarts and outages, and the store forgets the ones that it is told to.
@Suite(.schemas, .timeLimit(.minutes(10))) struct SigningKeyTests {
    @Test(arguments: StoreKind.allCases)
    func areRemembered(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let later = Timestamp.start + .days(1)
        func key(_ id: String, _ jwk: String, seen: Timestamp) -> SigningKeyRecord {
            SigningKeyRecord(keyID: id, jwk: jwk, lastSeenAt: seen, proof: Array("\(jwk)\0".utf8))
        }
        #expect(try await store.ports.signingKeys().isEmpty)
        try await store.ports.remember([key("b", "1", seen: .start), key("a", "2", seen: .start)], forgetting: [])
        try await store.ports.remember([key("b", "3", seen: later), key("c", "4", seen: later)], forgetting: [])
        let (a, b, c) = (key("a", "2", seen: .start), key("b", "3", seen: later), key("c", "4", seen: later))
        #expect(try await store.ports.signingKeys() == [a, b, c])

        // The store has another `b` by now.
        try await store.ports.remember([], forgetting: [key("b", "1", seen: .start), c])
        #expect(try await store.ports.signingKeys() == [a, b])
        try await store.ports.remember([key("b", "5", seen: later)], forgetting: [b, a])
        #expect(try await store.ports.signingKeys() == [key("b", "5", seen: later)])
    }
}
