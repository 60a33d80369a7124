// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// New people sign in for the first time. Without id_tokens it signs nothing, so ten thousand take a blink.
package struct SignUp: ControlMessage {
    package static let route = "POST users"
    package static let members = CodingKeys.names + SignInOptions.CodingKeys.names

    let count: Int
    let address: AddressKind
    let options: SignInOptions

    package init(_ count: Int = 1, address: AddressKind = .relay, _ options: SignInOptions = SignInOptions()) {
        (self.count, self.address, self.options) = (count, address, options)
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case count, address
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        count = try container.decodeIfPresent(Int.self, forKey: .count) ?? 1
        address = try container.decodeIfPresent(AddressKind.self, forKey: .address) ?? .relay
        options = try SignInOptions(from: decoder)
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(count, forKey: .count)
        try container.encode(address, forKey: .address)
        try options.encode(to: encoder)
    }

    package func happen(in simulator: AppleSimulator) throws -> SignIns {
        try CodingKeys.count.check(count, in: 0...10_000_000)
        let (signIns, key) = try simulator.withWorld { world in
            (try world.signUp(count, address: address, options, now: world.now), world.signingKeys.current)
        }
        return try SignIns(signIns, options, key)
    }
}

/// People sign in again. They get new tokens and renew a revoked consent.
package struct SignInAgain: ControlMessage {
    package static let route = "POST sign-ins"
    package static let members = People.CodingKeys.names + SignInOptions.CodingKeys.names

    let people: People
    let options: SignInOptions

    package init(_ people: People, _ options: SignInOptions = SignInOptions()) { (self.people, self.options) = (people, options) }
    package init(from decoder: any Decoder) throws { try self.init(People(from: decoder), SignInOptions(from: decoder)) }

    package func encode(to encoder: any Encoder) throws {
        try people.encode(to: encoder)
        try options.encode(to: encoder)
    }

    package func happen(in simulator: AppleSimulator) throws -> SignIns {
        let (signIns, key) = try simulator.withWorld { world in
            let people = try world.choose(people) { _ in true }
            return (try world.signIn(people, options, now: world.now), world.signingKeys.current)
        }
        return try SignIns(signIns, options, key)
    }
}

package struct SignIns: Codable, Sendable {
    package let signIns: [SignIn]

    enum CodingKeys: String, CodingKey {
        case signIns = "sign_ins"
    }

    /// Signs the id_tokens, if the options ask for them. It takes 0.2 ms for each, so not under the world's lock.
    fileprivate init(_ signIns: [SignIn], _ options: SignInOptions, _ key: SigningKey) throws {
        guard options.withIDToken == true else {
            self.signIns = signIns
            return
        }
        self.signIns = try signIns.map { signIn in
            var signIn = signIn
            signIn.idToken = try key.sign(JSONText.encode(members: IDTokenClaims(of: signIn).members))
            return signIn
        }
    }
}

/// People change the password of their Apple Accounts. Their tokens die, and Apple sends no notification.
package struct ChangePasswords: ControlMessage {
    package static let route = "POST password-changes"
    package static let members = People.CodingKeys.names

    let people: People

    package init(of people: People) { self.people = people }
    package init(from decoder: any Decoder) throws { try self.init(of: People(from: decoder)) }
    package func encode(to encoder: any Encoder) throws { try people.encode(to: encoder) }

    package func happen(in simulator: AppleSimulator) throws -> Done {
        try simulator.change { world in
            let people = try world.choose(people) { user in
                world.users[user].grants.contains { world.grants[$0].isAlive && world.grants[$0].hasRefreshToken }
            }
            for user in people { try world.requireAccount(of: user) }
            for grant in people.flatMap({ world.users[$0].grants }) where world.grants[grant].hasCredential {
                world.grants[grant].end(.passwordChanged, at: world.now)
            }
        }
    }
}

package struct ListUsers: ControlMessage {
    package static let route = "GET users"

    package struct Answer: Codable, Sendable {
        package let users: [UserTruth]
    }

    package init() {}
    package func happen(in simulator: AppleSimulator) -> Answer { Answer(users: simulator.withWorld { $0.truth }) }
}

package struct ReadUser: ObjectMessage {
    package static let route = "GET users/:id"

    package let id: String

    package init(id: String) { self.id = id }
    package func happen(in simulator: AppleSimulator) throws -> UserTruth { try simulator.withWorld { try $0.truth(of: id) } }
}
