// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialSealing
import Testing

struct DecisionProofTests {
    private static let time = Timestamp(milliseconds: 1_750_000_000_000)
    private static let later = Timestamp(milliseconds: 1_750_000_000_001)
    private static let alice = CredentialID(clientID: "app", userID: "alice")
    private static let key = RefreshToken.Key(grantedAt: time, fingerprint: [1])

    /// Neighbours that a careless encoding would take for the same.
    private static let decisions: [Decision] = [
        .request(text: "a", at: time, number: 1), .request(text: "a", at: time, number: 2), .request(text: "b", at: time, number: 1),
        .progress(request: 1, number: 1, position: "a"), .progress(request: 2, number: 1, position: "a"),
        .confirmation(request: 1, clientID: [97, 98], userID: [99], requestedAt: time, at: time),
        .confirmation(request: 1, clientID: [97], userID: [98, 99], requestedAt: time, at: time),
        .opening(request: 1, alice, key, requestedAt: time), .opening(request: 1, alice, key, requestedAt: later),
        .receipt(request: 1, alice, tokenGrantedAt: time, effectiveAt: time),
        .limit(app: 1, RevocationLimit(hourBeganAt: time)), .limit(app: 1, RevocationLimit(reachedAt: time)),
        .limit(app: 1, RevocationLimit(hourBeganAt: time, opened: 1)), .limit(app: 1, RevocationLimit(hourBeganAt: time, held: 1)),
        .pause(app: 1, since: time), .pause(app: 1, since: nil), .pause(app: 2, since: time), .breaker(app: 1, state: "{}"),
    ]

    @Test func aProofHoldsForItsDecisionInItsDatabase() throws {
        let ring = KeyRing.generate()
        let key = try CredentialSealer.newFingerprintKey(sealedBy: ring)
        let sealer = try CredentialSealer(ring: ring, sealedFingerprintKey: key)
        let again = try CredentialSealer(ring: ring, sealedFingerprintKey: key)
        let other = try newSealer(ring)
        for (place, decision) in Self.decisions.enumerated() {
            let proof = sealer.prove(decision)
            #expect(proof.count == 32)
            #expect(Self.decisions.indices.filter { again.isProved(Self.decisions[$0], by: proof) } == [place])
            #expect(!other.isProved(decision, by: proof))
            #expect(!sealer.isProved(decision, by: []))
        }
    }
}
