// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What is true of a user, to compare with what a program under test believes.
package struct UserTruth: Sendable, Codable, Equatable {
    package let userID: String
    package let teamID: String
    package let email: String?
    package let emailIsPrivate: Bool?
    /// `enabled` or `disabled`; absent where there is no relay address.
    package let emailForwarding: String?
    package let isAccountDeleted: Bool
    /// One per client at which the user has ever signed in.
    package let credentials: [CredentialTruth]

    enum CodingKeys: String, CodingKey {
        case userID = "user_id"
        case teamID = "team_id"
        case email
        case emailIsPrivate = "email_is_private"
        case emailForwarding = "email_forwarding"
        case isAccountDeleted = "account_deleted"
        case credentials
    }
}

/// What is true of a user at a client, in the words of Apple's `CredentialState` and of Sign in with Apple's events.
package struct CredentialTruth: Sendable, Codable, Equatable {
    package let clientID: String
    package let state: State
    package let reason: Reason
    /// When that became true. A new password is known to Apple alone: nobody outside can learn its moment.
    package let changedAt: Moment
    /// The latest sign-in.
    package let grantedAt: Moment
    /// How many refresh tokens would be answered with 200.
    package let liveTokens: Int
    package let refreshes: RefreshTruth
    /// How often a code was to be exchanged, and how often a token revoked, whatever became of it.
    package let exchanges: Int
    package let revocations: Int

    package enum State: String, Sendable, Codable {
        case authorized, revoked, notFound
    }

    package enum Reason: String, Sendable, Codable {
        case granted
        case tokenRejected = "token_rejected"
        case consentRevoked = "consent_revoked"
        case revokedByApp = "revoked_by_app"
        case accountDeleted = "account_deleted"
    }

    enum CodingKeys: String, CodingKey {
        case clientID = "client_id"
        case state
        case reason
        case changedAt = "changed_at"
        case grantedAt = "granted_at"
        case liveTokens = "live_tokens"
        case refreshes
        case exchanges
        case revocations
    }
}

/// How often and when the refresh tokens of a user at a client were asked about.
package struct RefreshTruth: Sendable, Codable, Equatable {
    package let requests: Int
    /// Those that got a 200 or an `invalid_grant`.
    package let answers: Int
    /// The latest of them, oldest first.
    package let answeredAt: [Moment]

    enum CodingKeys: String, CodingKey {
        case requests
        case answers
        case answeredAt = "answered_at"
    }
}

extension AppleWorld {
    func truth(of index: Int) -> UserTruth {
        let user = users[index]
        var clientIDs: [String] = []
        for grant in user.grants where !clientIDs.contains(grants[grant].clientID) { clientIDs.append(grants[grant].clientID) }
        return UserTruth(
            userID: user.id,
            teamID: user.teamID,
            email: user.address?.text,
            emailIsPrivate: user.address?.isPrivate,
            emailForwarding: user.address?.isPrivate == true ? (user.isForwarding ? "enabled" : "disabled") : nil,
            isAccountDeleted: user.deletedAt != nil,
            credentials: clientIDs.map { clientID in
                CredentialTruth(user.grants.map { grants[$0] }.filter { $0.clientID == clientID })
            }
        )
    }
}

extension CredentialTruth {
    /// - Parameter grants: the user's sign-ins at one client, at least one.
    fileprivate init(_ grants: [Grant]) {
        let latest = grants.reduce(grants[0]) { $1.grantedAt >= $0.grantedAt ? $1 : $0 }
        clientID = latest.clientID
        grantedAt = latest.grantedAt
        changedAt = latest.ending?.at ?? latest.grantedAt
        (state, reason) =
            switch latest.ending?.cause {
            case nil: (.authorized, .granted)
            case .passwordChanged: (.revoked, .tokenRejected)
            case .consentRevoked: (.revoked, .consentRevoked)
            case .revokedByApp: (.revoked, .revokedByApp)
            case .accountDeleted: (.notFound, .accountDeleted)
            }
        liveTokens = grants.count { $0.isAlive && $0.hasRefreshToken }
        refreshes = RefreshTruth(
            requests: grants.reduce(0) { $0 + $1.refreshes.requests },
            answers: grants.reduce(0) { $0 + $1.refreshes.answers },
            answeredAt: grants.flatMap(\.refreshes.answeredAt).sorted()
        )
        exchanges = grants.reduce(0) { $0 + $1.exchanges }
        revocations = grants.reduce(0) { $0 + $1.revocations }
    }
}
