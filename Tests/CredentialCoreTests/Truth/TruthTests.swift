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
        if let seed = Self.seeds.first(where: { !isTrue(Self.arrival($0)) }) { Issue.record("\(report(seed))") }
    }

    @Test func theCasesMeetEveryRule() {
        let standings = (1...1_000).map(Self.arrival).flatMap { arrival in
            Client.allCases.map { Oracle(knowing: arrival, at: $0).standing }
        }
        for reason in StateReason.allCases { #expect(standings.count { $0.reason == reason.rawValue } >= 20, "\(reason)") }
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

/// The registers of one user at every client of an app, updated one fact at a time, as a store does it.
struct Registers {
    private var user = AppUser()
    private var credentials: [Client: Credential] = [.app: Credential(), .web: Credential()]

    init(after arrival: Arrival) { for delivery in arrival.deliveries { apply(delivery) } }

    private mutating func apply(_ delivery: Delivery) {
        switch delivery.fact {
        case .grant(let grant):
            user.apply(grant)
            credentials[delivery.client]!.apply(grant)
        case .event(let event):
            user.apply(event)
        case .answer(let answer):
            credentials[delivery.client]!.apply(answer)
        case .revocation(let revocation):
            credentials[delivery.client]!.revoke(at: revocation)
        case .proof(let revocation):
            user.revoke(at: revocation)
            credentials[delivery.client]!.revoke(at: revocation)
        }
        user.eraseAddress(until: credentials.values.compactMap(\.revokedAt).max())
        for client in Client.allCases { credentials[client]!.eraseUnusableToken(under: user) }
    }

    func standing(at client: Client) -> Oracle.Standing {
        let credential = credentials[client]!
        let standing = credential.standing(under: user)
        return Oracle.Standing(
            state: standing.state.rawValue,
            reason: standing.reason.rawValue,
            since: standing.since,
            token: credential.token.map { Oracle.Token($0.key) },
            keptToken: credential.token?.keptForTest,
            isAskedAbout: credential.tokenToCheck(under: user) != nil,
            isNeverAccepted: credential.isTokenNeverAccepted(under: user),
            verifiedAt: credential.verifiedAt,
            rejectedAt: credential.rejectedAt,
            mail: user.mailbox.map {
                Oracle.Mail($0.address.text, isPrivate: $0.address.isPrivate, at: $0.at, isFromEvent: $0.rank == .event)
            },
            relay: user.forwarding.map { Oracle.Relay(at: $0.at, isEnabled: $0.status == .enabled) },
            shownRelay: user.shownForwarding.map { $0 == .enabled }
        )
    }
}

extension RefreshToken {
    /// A token whose sealed bytes follow from its key, so that a test can recognize them.
    static func sealedForTest(_ key: Key) -> RefreshToken { RefreshToken(key: key, sealed: SealedToken(bytes: sealedBytes(of: key))) }
    private static func sealedBytes(of key: Key) -> [UInt8] { Array("sealed \(key.fingerprint) of \(key.grantedAt.milliseconds)".utf8) }

    /// The token of the stored sealed bytes. Other bytes count as a fingerprint that equals none.
    fileprivate var keptForTest: Oracle.Token? {
        sealed.map {
            $0.bytes == Self.sealedBytes(of: key) ? Oracle.Token(key) : Oracle.Token(grantedAt: key.grantedAt, fingerprint: $0.bytes)
        }
    }
}

extension Oracle {
    init(knowing arrival: Arrival, at client: Client) {
        self.init()
        for delivery in arrival.deliveries {
            let isHere = delivery.client == client
            switch delivery.fact {
            case .grant(let grant):
                insert(grant.address, at: grant.grantedAt, isFromEvent: false)
                guard isHere else { continue }
                grants.insert(grant.grantedAt)
                if let token = grant.token { tokens.insert(Token(token.key)) }
            case .event(let event):
                insert(event)
            case .answer(let answer):
                if isHere { answers.append(Answer(token: Token(answer.token), isValid: answer.verdict == .valid, at: answer.requestedAt)) }
            case .revocation(let revocation):
                accountEnds.insert(revocation)
                if isHere { revocations.insert(revocation) }
            case .proof(let revocation):
                provedRevocations.insert(revocation)
                accountEnds.insert(revocation)
                if isHere { revocations.insert(revocation) }
            }
        }
    }

    private mutating func insert(_ event: Event) {
        insert(event.kind.address, at: event.occurredAt, isFromEvent: true)
        switch event.kind {
        case .consentRevoked: consentRevocations.insert(event.occurredAt)
        case .accountDeleted: deletions.insert(event.occurredAt)
        case .emailEnabled: relays.append(Relay(at: event.occurredAt, isEnabled: true))
        case .emailDisabled: relays.append(Relay(at: event.occurredAt, isEnabled: false))
        case .unknown: break
        }
    }

    private mutating func insert(_ address: EmailAddress?, at time: Timestamp, isFromEvent: Bool) {
        guard let address else { return }
        mails.append(Mail(address.text, isPrivate: address.isPrivate, at: time, isFromEvent: isFromEvent))
    }
}

extension Oracle.Standing {
    /// One line for each column that differs: its name, its value here and its value there.
    func differences(from other: Self) -> [String] {
        zip(Mirror(reflecting: self).children, Mirror(reflecting: other).children).compactMap { mine, theirs in
            let (found, expected) = ("\(mine.value)", "\(theirs.value)")
            return found == expected ? nil : "\(mine.label ?? "?") \(found) / \(expected)"
        }
    }
}
