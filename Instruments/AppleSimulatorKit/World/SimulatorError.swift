// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Why an operation is impossible in the simulated world.
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
    /// Fewer users than asked for qualify.
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
