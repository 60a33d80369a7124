// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// Apple's keys survive restarts and outages, and the store keeps the retired ones.
@Suite(.timeLimit(.minutes(10))) struct SigningKeyTests {
    @Test(arguments: StoreKind.allCases)
    func areRemembered(_ kind: StoreKind) async throws {
        let store = try kind.make()
        let later = Timestamp.start + .days(1)
        func key(_ id: String, _ jwk: String, seen first: Timestamp, _ last: Timestamp) -> SigningKeyRecord {
            SigningKeyRecord(keyID: id, jwk: jwk, firstSeenAt: first, lastSeenAt: last)
        }
        #expect(try await store.ports.signingKeys().isEmpty)
        try await store.ports.remember([key("b", "1", seen: .start, .start), key("a", "2", seen: .start, .start)], fetchedAt: .start)
        try await store.ports.remember([key("b", "3", seen: later, later), key("c", "4", seen: later, later)], fetchedAt: later)
        #expect(
            try await store.ports.signingKeys() == [
                key("a", "2", seen: .start, .start), key("b", "3", seen: .start, later), key("c", "4", seen: later, later),
            ]
        )
    }
}
