// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What happens to people, with Apple's notifications of it. Its stored properties are members of its message.
package protocol PeopleEvent: Codable, Sendable {
    /// The path below `/simulator`.
    static var path: String { get }
    static var members: [String] { get }
    var type: NotificationType { get }

    /// Whether `any` may choose this user.
    func canMeet(_ user: Int, in world: AppleWorld) -> Bool
    /// The app groups that get a notification.
    ///
    /// - Parameter clientID: a client of the app group; the group of the user's latest sign-in, if absent.
    /// - Throws: the reason, if the event is impossible for this user.
    func groups(of user: Int, clientID: String?, in world: AppleWorld) throws(SimulatorError) -> [Int]
    func happen(to user: Int, in groups: [Int], at moment: Moment, in world: inout AppleWorld)
}

extension PeopleEvent {
    package static var members: [String] { [] }
}

/// An event, its people, and the details of its notifications. The answer has the notifications.
package struct EventMessage<Event: PeopleEvent>: ControlMessage {
    package static var route: String { "POST \(Event.path)" }
    package static var members: [String] { Event.members + People.CodingKeys.names + CodingKeys.names + Emission.CodingKeys.names }

    let event: Event
    let people: People
    let clientID: String?
    let emission: Emission

    package init(_ event: Event, of people: People, clientID: String? = nil, _ emission: Emission = Emission()) {
        (self.event, self.people, self.clientID, self.emission) = (event, people, clientID, emission)
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case clientID = "client_id"
    }

    package init(from decoder: any Decoder) throws {
        event = try Event(from: decoder)
        people = try People(from: decoder)
        clientID = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(String.self, forKey: .clientID)
        emission = try Emission(from: decoder)
    }

    package func encode(to encoder: any Encoder) throws {
        try event.encode(to: encoder)
        try people.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(clientID, forKey: .clientID)
        try emission.encode(to: encoder)
    }

    package func happen(in simulator: AppleSimulator) async throws -> Notifications {
        let drafts = try simulator.withWorld { world in
            let now = world.now
            let users = try world.choose(people) { event.canMeet($0, in: world) }
            // Check all people before the first change.
            let groups = try users.map { try event.groups(of: $0, clientID: clientID, in: world) }
            return zip(users, groups).flatMap { user, groups in
                event.happen(to: user, in: groups, at: emission.eventTime ?? now, in: &world)
                return groups.map { world.draft(event.type, user, $0, emission, now: now) }
            }
        }
        return Notifications(notifications: try await simulator.emit(drafts))
    }
}

/// People stop using Sign in with Apple for an app group. All their tokens in it die.
package struct RevokeConsent: PeopleEvent {
    package static let path = "consent-revocations"

    package init() {}
    package var type: NotificationType { .consentRevoked }

    package func canMeet(_ user: Int, in world: AppleWorld) -> Bool {
        world.users[user].grants.last.map { world.isConsented(user, world.grants[$0].group) } ?? false
    }

    package func groups(of user: Int, clientID: String?, in world: AppleWorld) throws(SimulatorError) -> [Int] {
        let group = try world.group(of: user, clientID: clientID)
        guard world.isConsented(user, group) else { throw .notAuthorized(world.users[user].id) }
        return [group]
    }

    package func happen(to user: Int, in groups: [Int], at moment: Moment, in world: inout AppleWorld) {
        for group in groups { world.endConsent(of: user, in: group, .consentRevoked, at: moment) }
    }
}

/// People delete their Apple Accounts. All their tokens die, and each app group that had their consent gets a notification.
package struct DeleteAccounts: PeopleEvent {
    package static let path = "account-deletions"

    package init() {}
    package var type: NotificationType { .accountDeleted }
    package func canMeet(_ user: Int, in world: AppleWorld) -> Bool { world.users[user].grants.contains { world.grants[$0].isConsented } }

    package func groups(of user: Int, clientID: String?, in world: AppleWorld) throws(SimulatorError) -> [Int] {
        try world.requireAccount(of: user)
        return world.groups.indices.filter { world.isConsented(user, $0) }
    }

    package func happen(to user: Int, in groups: [Int], at moment: Moment, in world: inout AppleWorld) {
        world.users[user].deletedAt = moment
        for group in groups { world.endConsent(of: user, in: group, .accountDeleted, at: moment) }
    }
}

/// People switch the forwarding of relay mail off or on. Their tokens stay as they are.
package struct SwitchForwarding: PeopleEvent {
    package static let path = "mail-forwarding"
    package static let members = CodingKeys.names

    let isEnabled: Bool

    package init(on isEnabled: Bool) { self.isEnabled = isEnabled }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case isEnabled = "enabled"
    }

    package var type: NotificationType { isEnabled ? .emailEnabled : .emailDisabled }

    package func canMeet(_ user: Int, in world: AppleWorld) -> Bool {
        world.users[user].address?.isPrivate == true && world.users[user].isForwarding != isEnabled
    }

    package func groups(of user: Int, clientID: String?, in world: AppleWorld) throws(SimulatorError) -> [Int] {
        try world.requireAccount(of: user)
        guard world.users[user].address?.isPrivate == true else { throw .noRelayAddress(world.users[user].id) }
        return [try world.group(of: user, clientID: clientID)]
    }

    package func happen(to user: Int, in groups: [Int], at moment: Moment, in world: inout AppleWorld) {
        world.users[user].isForwarding = isEnabled
    }
}

/// Apple says something about people, and nothing changes: a notification out of order, or a lie.
package struct FalseEvent: PeopleEvent {
    package static let path = "notifications"
    package static let members = CodingKeys.names

    package let type: NotificationType

    package init(_ type: NotificationType) { self.type = type }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case type
    }

    package func canMeet(_ user: Int, in world: AppleWorld) -> Bool { true }

    package func groups(of user: Int, clientID: String?, in world: AppleWorld) throws(SimulatorError) -> [Int] {
        [try world.group(of: user, clientID: clientID)]
    }

    package func happen(to user: Int, in groups: [Int], at moment: Moment, in world: inout AppleWorld) {}
}

package struct Notifications: Codable, Sendable {
    package let notifications: [SignedNotification]
}

/// The kept notifications, oldest first.
package struct ListNotifications: ControlMessage {
    package static let route = "GET notifications"

    package func happen(in simulator: AppleSimulator) -> Notifications {
        Notifications(notifications: simulator.withWorld { $0.notifications.all })
    }
}

/// Apple sends a notification once more, byte by byte. The id is its `jti`.
package struct Redeliver: ObjectMessage {
    package static let route = "POST notifications/:id/redelivery"

    package let id: String

    package init(id: String) { self.id = id }

    package func happen(in simulator: AppleSimulator) throws -> Notifications {
        guard let notification = simulator.withWorld({ $0.notifications[id] }) else { throw SimulatorError.unknownNotification(id) }
        simulator.deliver([notification])
        return Notifications(notifications: [notification])
    }
}
