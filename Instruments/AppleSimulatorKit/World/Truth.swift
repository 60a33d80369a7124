// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The truth about a user, to compare with the belief of a program under test.
package struct UserTruth: Sendable, Codable, Equatable {
    package let userID: String
    package let teamID: String
    package let email: String?
    package let emailIsPrivate: Bool?
    /// `enabled` or `disabled`; absent without a relay address.
    package let emailForwarding: String?
    package let isAccountDeleted: Bool
    /// One for each client at which the user has ever signed in.
    package let credentials: [CredentialTruth]

    enum CodingKeys: String, CodingKey {
        case userID = "user_id"
        case teamID = "team_id"
        case emailIsPrivate = "email_is_private"
        case emailForwarding = "email_forwarding"
        case isAccountDeleted = "account_deleted"
        case email, credentials
    }
}

/// The truth about a user at a client, in the words of Apple's `CredentialState` and of Sign in with Apple's events.
package struct CredentialTruth: Sendable, Codable, Equatable {
    package let clientID: String
    package let state: State
    package let reason: Reason
    /// When it last changed. Only Apple knows the moment of a new password.
    package let changedAt: Moment
    package let grantedAt: Moment
    /// How many refresh tokens Apple would answer with 200.
    package let liveTokens: Int
    package let refreshes: RefreshHistory
    /// Requests to exchange a code, and requests to revoke a token, whatever their outcome.
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
        case state, reason, refreshes, exchanges, revocations
        case changedAt = "changed_at"
        case grantedAt = "granted_at"
        case liveTokens = "live_tokens"
    }
}

extension AppleWorld {
    var truth: [UserTruth] { users.indices.map(truth) }

    /// The shortest time between two answers to refreshes of one token, over all users. It proves that the program asked about no token
    /// twice in a day.
    ///
    /// It leaves out tokens that the app has revoked, because the program asks about them before and after the revocation.
    var shortestRefreshGap: Duration? { grants.lazy.filter { $0.ending?.cause != .revokedByApp }.compactMap(\.refreshes.shortestGap).min() }
    func truth(of userID: String) throws(SimulatorError) -> UserTruth { truth(of: try user(userID)) }

    private func truth(of index: Int) -> UserTruth {
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
            credentials: clientIDs.map { clientID in CredentialTruth(user.grants.map { grants[$0] }.filter { $0.clientID == clientID }) }
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
        refreshes = RefreshHistory(merging: grants.map(\.refreshes))
        exchanges = grants.reduce(0) { $0 + $1.exchanges }
        revocations = grants.reduce(0) { $0 + $1.revocations }
    }
}
