// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Testing

@testable import CredentialTesting

/// State is a function of the set of facts. In any order and with any duplicates, the registers give the oracle's result for the set.
@Suite struct TruthTests {
    /// Every case follows from its number alone. `TRUTH_SEED` picks one.
    private static let seeds: ClosedRange<UInt64> = {
        let chosen = ProcessInfo.processInfo.environment["TRUTH_SEED"].flatMap(UInt64.init)
        return chosen.map { $0...$0 } ?? 1...5_000
    }()

    @Test func everyArrivalEndsAsTheRulesSay() {
        if let seed = Self.seeds.first(where: { !isTrue(Self.arrival($0)) }) {
            Issue.record("\(report(seed))")
        }
    }

    /// A case that never occurs proves nothing.
    @Test func theCasesMeetEveryRule() {
        let standings = (1...1_000).map(Self.arrival).flatMap { arrival in
            Client.allCases.map { Oracle(knowing: arrival, at: $0).standing }
        }
        for reason in StateReason.allCases {
            #expect(standings.count { $0.reason == reason.rawValue } >= 20, "\(reason)")
        }
        #expect(standings.count { $0.token != nil && $0.keptToken == nil } >= 100)
        let elsewhere = (1...1_000).map(Self.arrival).flatMap { arrival in
            Client.allCases.map { Oracle(knowing: arrival, at: $0) }.filter(\.isRevokedElsewhere)
        }
        #expect(elsewhere.count >= 20)
        #expect(standings.count { $0.keptToken != nil && !$0.isAskedAbout } >= 100)
        #expect(standings.count { $0.verifiedAt != nil && $0.verifiedAt == $0.rejectedAt } >= 20)
        #expect(standings.count(where: \.isNeverAccepted) >= 100)
        #expect(standings.count { $0.isNeverAccepted && $0.state == "authorized" } >= 20)
        #expect(standings.count { $0.mail == nil && $0.relay != nil } >= 100)
        #expect(standings.count { $0.relay != nil && $0.shownRelay == nil } >= 100)
    }

    /// A proved revocation at one client covers a sign-in at another, whichever siwatch learns of first.
    @Test func aProofCoversTheOtherClientInAnyOrder() {
        let proof = Delivery(client: .app, fact: .proof(at(6)))
        for (time, reason) in [(5, "revoked_by_app"), (6, "revoked_by_app"), (7, "granted")] as [(Int64, String)] {
            let key = RefreshToken.Key(grantedAt: at(time), fingerprint: [1])
            let signIn = Delivery(client: .web, fact: .grant(Grant(grantedAt: at(time), token: .sealedForTest(key))))
            let answer = Delivery(client: .web, fact: .answer(RefreshAnswer(.valid, token: key, requestedAt: at(9))))
            for deliveries in [[proof, signIn, answer], [signIn, proof, answer], [signIn, answer, proof]] {
                let standing = Registers(after: Arrival(deliveries: deliveries)).standing(at: .web)
                #expect(standing.reason == reason && standing.since == (time <= 6 ? at(6) : at(7)))
                #expect((standing.keptToken == nil) == (time <= 6))
            }
        }
    }

    /// A token that was dead before says nothing about the other client.
    @Test func aDeadTokenSaysNothingOfTheOtherClient() {
        let dead = Delivery(client: .app, fact: .revocation(at(6)))
        let signIn = Delivery(client: .web, fact: .grant(Grant(grantedAt: at(5))))
        for deliveries in [[dead, signIn], [signIn, dead]] {
            #expect(Registers(after: Arrival(deliveries: deliveries)).standing(at: .web).reason == "granted")
        }
    }

    private static func arrival(_ seed: UInt64) -> Arrival {
        var generator = SeededGenerator(seed: seed)
        return .random(using: &generator)
    }

    private func isTrue(_ arrival: Arrival) -> Bool {
        Client.allCases.allSatisfy { Registers(after: arrival).standing(at: $0) == Oracle(knowing: arrival, at: $0).standing }
    }

    private func report(_ seed: UInt64) -> String {
        let shortest = Self.arrival(seed).shortened { !isTrue($0) }
        let differences = Client.allCases.flatMap { client in
            let (found, expected) = (Registers(after: shortest).standing(at: client), Oracle(knowing: shortest, at: client).standing)
            return found.differences(from: expected).map { "\(client): \($0)" }
        }
        return """
            Repeat with: TRUTH_SEED=\(seed) make test ARGS="--filter TruthTests"
            The shortest arrival that still fails:
            \(shortest)
            What differs, as found and as the rules say:
            \(differences.joined(separator: "\n"))
            """
    }
}

extension Oracle {
    /// Whether only a proof at the other client ends the sign-in.
    fileprivate var isRevokedElsewhere: Bool {
        guard let signedInAt = grants.max(), standing.reason == "revoked_by_app" else { return false }
        return revocations.allSatisfy { $0 < signedInAt }
    }
}
