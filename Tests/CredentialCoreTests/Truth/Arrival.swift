// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The clients of one app, which share a user's consent.
enum Client: CaseIterable {
    case app, web
}

/// A fact that siwatch can learn about a user. State is a function of the set of facts, in any order.
enum Fact {
    case grant(Grant)
    case event(Event)
    case answer(RefreshAnswer)
    /// The client's token was dead before siwatch could revoke it.
    case revocation(Timestamp)
    /// siwatch revoked the client's token, and proved it.
    case proof(Timestamp)
}

/// One fact on arrival, with its client. An event is about the user, and its client is only the one that `aud` names.
struct Delivery {
    var client: Client
    var fact: Fact
}

/// All facts that siwatch learns about one user, in order, with duplicates.
struct Arrival {
    var deliveries: [Delivery]

    /// Whether every answer comes after a grant of its token, because siwatch cannot ask about an unknown token.
    var isPossible: Bool {
        deliveries.indices.allSatisfy { index in
            guard case .answer(let answer) = deliveries[index].fact else { return true }
            let client = deliveries[index].client
            return deliveries[..<index].contains { $0.client == client && $0.token?.key == answer.token }
        }
    }

    /// Removes one delivery after another for as long as the rest still `fails`.
    func shortened(while fails: (Arrival) -> Bool) -> Arrival {
        var shortest = self
        var index = 0
        while index < shortest.deliveries.count {
            var candidate = shortest
            candidate.deliveries.remove(at: index)
            if candidate.isPossible, fails(candidate) {
                (shortest, index) = (candidate, 0)
            } else {
                index += 1
            }
        }
        return shortest
    }
}

extension Delivery {
    var token: RefreshToken? {
        guard case .grant(let grant) = fact else { return nil }
        return grant.token
    }
}

extension Arrival: CustomStringConvertible {
    var description: String { deliveries.map(\.description).joined(separator: "\n") }
}

extension Delivery: CustomStringConvertible {
    var description: String {
        switch fact {
        case .grant(let grant):
            "\(client): grant at \(grant.grantedAt.milliseconds), "
                + (grant.token.map { "token \($0.key.fingerprint)" } ?? "no token") + ", \(grant.address.text)"
        case .event(let event):
            "\(client): \(event.kind.name) at \(event.occurredAt.milliseconds), \(event.kind.address.text)"
        case .answer(let answer):
            "\(client): \(answer.verdict) at \(answer.requestedAt.milliseconds)"
                + " for token \(answer.token.fingerprint) of \(answer.token.grantedAt.milliseconds)"
        case .revocation(let revocation):
            "\(client): revocation at \(revocation.milliseconds)"
        case .proof(let revocation):
            "\(client): proved revocation at \(revocation.milliseconds)"
        }
    }
}

extension Event.Kind {
    var address: EmailAddress? {
        switch self {
        case .emailEnabled(let address), .emailDisabled(let address): address
        case .consentRevoked, .accountDeleted, .unknown: nil
        }
    }

    fileprivate var name: String {
        switch self {
        case .consentRevoked: "consent revoked"
        case .accountDeleted: "account deleted"
        case .emailEnabled: "e-mail enabled"
        case .emailDisabled: "e-mail disabled"
        case .unknown: "unknown event"
        }
    }
}

extension EmailAddress? {
    /// In ASCII only, because two addresses that look alike may differ in their bytes.
    fileprivate var text: String {
        guard let self else { return "no address" }
        let ascii = self.text.unicodeScalars.map { $0.escaped(asASCII: true) }.joined()
        return self.isPrivate.map { "\(ascii) (private: \($0))" } ?? ascii
    }
}

extension Arrival {
    /// A random set of facts in a random order with random duplicates.
    ///
    /// Times come from a range of 1 to 12 milliseconds, so that ties are the rule.
    static func random(using generator: inout some RandomNumberGenerator) -> Arrival {
        var source = FactSource(times: 0..<Int64.random(in: 1...12, using: &generator), generator: generator)
        let arrival = source.arrival()
        generator = source.generator
        return arrival
    }
}

private struct FactSource<Generator: RandomNumberGenerator> {
    let times: Range<Int64>
    var generator: Generator

    mutating func arrival() -> Arrival {
        let grants = several(0...5) { $0.grant() }
        let events = several(0...5) { $0.event() }
        let revocations = several(0...2) { $0.revocation() }
        let answers = several(0...8) { $0.answer(aboutOneOf: grants) }.compactMap(\.self)

        var arrival = Arrival(deliveries: withDuplicates(grants + events + revocations).shuffled(using: &generator))
        for answer in withDuplicates(answers) { insert(answer, into: &arrival) }
        return arrival
    }

    private mutating func grant() -> Delivery {
        let fingerprints: [[UInt8]?] = [nil, [0x00], [0x01], [0x7f], [0x80], [0x80, 0x00], [0xff]]
        let time = time()
        let token = choice(of: fingerprints).map { RefreshToken.sealedForTest(RefreshToken.Key(grantedAt: time, fingerprint: $0)) }
        return Delivery(client: client(), fact: .grant(Grant(grantedAt: time, token: token, address: address())))
    }

    private mutating func event() -> Delivery {
        let kinds: [Event.Kind] = [.consentRevoked, .accountDeleted, .emailEnabled(address()), .emailDisabled(address()), .unknown]
        return Delivery(client: client(), fact: .event(Event(choice(of: kinds), at: time())))
    }

    private mutating func revocation() -> Delivery {
        let revocation = time()
        let facts: [Fact] = [.revocation(revocation), .proof(revocation)]
        return Delivery(client: client(), fact: choice(of: facts))
    }

    private mutating func answer(aboutOneOf grants: [Delivery]) -> Delivery? {
        guard let grant = grants.filter({ $0.token != nil }).randomElement(using: &generator), let token = grant.token else { return nil }
        let verdicts: [RefreshAnswer.Verdict] = [.valid, .rejected]
        let answer = RefreshAnswer(choice(of: verdicts), token: token.key, requestedAt: time())
        return Delivery(client: grant.client, fact: .answer(answer))
    }

    /// Inserts an answer anywhere after the first grant of its token.
    private mutating func insert(_ answer: Delivery, into arrival: inout Arrival) {
        guard case .answer(let content) = answer.fact,
            let grant = arrival.deliveries.firstIndex(where: { $0.client == answer.client && $0.token?.key == content.token })
        else { preconditionFailure("\(answer) is about no grant.") }
        arrival.deliveries.insert(answer, at: .random(in: grant + 1...arrival.deliveries.count, using: &generator))
    }

    private mutating func withDuplicates(_ deliveries: [Delivery]) -> [Delivery] {
        deliveries.flatMap { Array(repeating: $0, count: choice(of: [1, 1, 1, 2, 3])) }
    }

    private mutating func time() -> Timestamp { Timestamp(milliseconds: .random(in: times, using: &generator)) }
    private mutating func client() -> Client { choice(of: Client.allCases) }

    /// Two of the addresses are equal to Swift's `==`, which compares characters, and different to a table, which compares bytes.
    private mutating func address() -> EmailAddress? {
        let text = choice(of: [nil, "a@example.com", "b@example.com", "\u{e9}@example.com", "e\u{301}@example.com"])
        let isPrivate = choice(of: [nil, false, true])
        return text.map { EmailAddress($0, isPrivate: isPrivate) }
    }

    private mutating func choice<Element>(of elements: [Element]) -> Element {
        elements[Int.random(in: elements.indices, using: &generator)]
    }

    private mutating func several<Element>(_ count: ClosedRange<Int>, _ make: (inout Self) -> Element) -> [Element] {
        (0..<Int.random(in: count, using: &generator)).map { _ in make(&self) }
    }
}
