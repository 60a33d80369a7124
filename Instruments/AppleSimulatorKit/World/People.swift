// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The people of an operation, as two members of its message: `user_ids`, or `any` with a number.
package enum People: Sendable {
    case these([String])
    /// The first so many people that the operation can apply to, in the order of their creation.
    case any(Int)
}

extension People: Codable {
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
