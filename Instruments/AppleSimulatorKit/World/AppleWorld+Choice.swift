// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The people of an operation.
package enum People: Sendable {
    case these([String])
    /// The first so many people that the operation can apply to, in the order of their creation.
    case any(Int)
}

extension AppleWorld {
    /// The kinds of operation, as far as they restrict the choice of people.
    enum Fate {
        case signIn, endOfConsent, deletion, forwarding(Bool), passwordChange, claim
    }

    func choose(_ people: People, for fate: Fate) throws(SimulatorError) -> [Int] {
        switch people {
        case .these(let ids):
            var chosen: [Int] = []
            chosen.reserveCapacity(ids.count)
            for id in ids { chosen.append(try user(id)) }
            return chosen
        case .any(let count):
            let chosen = Array(users.indices.lazy.filter { canMeet(fate, $0) }.prefix(count))
            guard chosen.count == count else { throw .tooFewUsers(chosen.count) }
            return chosen
        }
    }

    private func canMeet(_ fate: Fate, _ index: Int) -> Bool {
        let user = users[index]
        guard user.deletedAt == nil else { return false }
        return switch fate {
        case .signIn, .claim: true
        case .deletion: user.grants.contains { grants[$0].isConsented }
        case .endOfConsent: user.grants.last.map { isConsented(index, grants[$0].group) } ?? false
        case .forwarding(let wanted): user.address?.isPrivate == true && user.isForwarding != wanted
        case .passwordChange: user.grants.contains { grants[$0].isAlive && grants[$0].hasRefreshToken }
        }
    }
}
