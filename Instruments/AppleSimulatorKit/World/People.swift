// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The people of an operation, as two members of its message: `user_ids`, or `any` with a number.
package enum People: Codable, Sendable {
    case these([String])
    /// The first so many people that the operation can apply to, in the order of their creation.
    case any(Int)

    enum CodingKeys: String, CodingKey, CaseIterable {
        case userIDs = "user_ids"
        case any
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        if let count = try container.decodeIfPresent(Int.self, forKey: .any) {
            try CodingKeys.any.check(count, in: 0...Int.max)
            self = .any(count)
        } else {
            self = .these(try container.decode([String].self, forKey: .userIDs))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .these(let ids): try container.encode(ids, forKey: .userIDs)
        case .any(let count): try container.encode(count, forKey: .any)
        }
    }
}

extension AppleWorld {
    /// - Parameter canMeet: whether the operation can apply to a user. Deleted accounts are left out anyway.
    func choose(_ people: People, where canMeet: (Int) -> Bool) throws(SimulatorError) -> [Int] {
        var chosen: [Int] = []
        switch people {
        case .these(let ids):
            chosen.reserveCapacity(ids.count)
            for id in ids { chosen.append(try user(id)) }
        case .any(let count):
            for user in users.indices where users[user].deletedAt == nil && canMeet(user) {
                if chosen.count == count { break }
                chosen.append(user)
            }
            guard chosen.count == count else { throw .tooFewUsers(chosen.count) }
        }
        return chosen
    }
}

/// A person with an Apple Account, as one team sees the person.
struct SimulatedUser: Sendable {
    /// The `sub`: stable per person and team, through revocation and new consent.
    let id: String
    let teamID: String
    let address: EmailAddress?
    /// Whether the relay forwards mail. Meaningless for a user's own address.
    var isForwarding = true
    var deletedAt: Moment?
    var grants: [Int] = []
}

package struct EmailAddress: Sendable, Hashable {
    package let text: String
    package let isPrivate: Bool
}

package enum SimulatorError: Error, Equatable {
    case unknownUser(String)
    case unknownClient(String)
    case unknownNotification(String)
    case unknownKey(String)
    case unknownFault(Int)
    /// The person has deleted the Apple Account and cannot use it any more.
    case accountDeleted(String)
    /// There is no consent to revoke.
    case notAuthorized(String)
    /// Only relay addresses have mail forwarding.
    case noRelayAddress(String)
    case tooFewUsers(Int)
}

extension SimulatorError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unknownUser(let id): "There is no user \(id)."
        case .unknownClient(let id): "No app group has the client \(id)."
        case .unknownNotification(let id): "No kept notification has the jti \(id)."
        case .unknownKey(let id): "No app group has the key \(id)."
        case .unknownFault(let id): "No fault has the id \(id)."
        case .accountDeleted(let id): "The user \(id) has deleted the Apple Account."
        case .notAuthorized(let id): "The user \(id) has given no consent that could be revoked."
        case .noRelayAddress(let id): "The user \(id) has no relay address."
        case .tooFewUsers(let count): "Only \(count) users can do that."
        }
    }
}
