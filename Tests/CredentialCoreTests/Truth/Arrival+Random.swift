// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

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

/// Makes random facts about one user.
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
        let token = choice(of: fingerprints).map {
            RefreshToken.sealedForTest(RefreshToken.Key(grantedAt: time, fingerprint: $0))
        }
        return Delivery(client: client(), fact: .grant(Grant(grantedAt: time, token: token, address: address())))
    }

    private mutating func event() -> Delivery {
        let kinds: [Event.Kind] = [
            .consentRevoked, .accountDeleted, .emailEnabled(address()), .emailDisabled(address()), .unknown,
        ]
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
