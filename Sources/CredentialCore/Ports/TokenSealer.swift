// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package protocol TokenSealer: Sendable {
    /// The key that tells two tokens of the same time apart.
    func fingerprint(of token: Secret) -> [UInt8]
    /// Encrypts a token for one credential and one grant. It opens for no other.
    func seal(_ token: Secret, for credential: CredentialID, grantedAt: Timestamp) throws -> SealedToken
    /// - Throws: if the key is missing, or the bytes are damaged or belong to another credential or grant.
    func open(_ sealed: SealedToken, for credential: CredentialID, grantedAt: Timestamp) throws -> Secret
    /// Opens a token that a backend has sealed to the public key, so that the token never stands in the queue in clear.
    func open(delivered sealed: [UInt8], for credential: CredentialID) throws(DeliveryError) -> DeliveredToken
}

package struct DeliveredToken: Sendable {
    package var token: Secret
    /// The time of the sign-in for which the backend has sealed the token. It is authenticated.
    package var grantedAt: Timestamp

    package init(token: Secret, grantedAt: Timestamp) {
        self.token = token
        self.grantedAt = grantedAt
    }
}

/// Why a token that a backend has sealed is lost.
package enum DeliveryError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The token is sealed to a key that the key file does not hold, or for another database.
    case unknownKey(id: String)
    /// The bytes are damaged, made for another user or client, no token, or for no legal time.
    case unreadable

    package var description: String {
        switch self {
        case .unknownKey(let id): "sealed to public key \(id), which is not one of siwatch secret public-key"
        case .unreadable: "damaged, or sealed for another user or client, or for a time before 2019"
        }
    }

    var rejection: GrantRejection {
        switch self {
        case .unknownKey: .unknownTokenKey
        case .unreadable: .unreadableToken
        }
    }
}

package protocol UserPseudonymizer: Sendable {
    /// A keyed hash of the `sub`, the same for the life of the database. Without the key it names nobody.
    func pseudonym(of userID: String) -> String
}

/// What siwatch remembers of a forgotten user in one app.
package struct ForgottenUser: Sendable, Equatable {
    package var pseudonym: String
    /// The newest fact that siwatch knew of the user. It takes no fact up to this time.
    package var until: Timestamp

    /// Every pseudonym begins so, and no `sub` of Apple's does.
    package static let prefix = "forgotten:"

    package static func isName(_ userID: String) -> Bool { userID.hasPrefix(prefix) }

    package init(pseudonym: String, until: Timestamp) {
        self.pseudonym = pseudonym
        self.until = until
    }
}
