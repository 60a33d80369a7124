// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Actions of people that several control messages share.
extension AppleWorld {
    mutating func signUp(_ count: Int, address: AddressKind, _ options: SignInOptions, now: Moment) throws(SimulatorError) -> [SignIn] {
        let (clientID, group) = try client(of: options)
        users.reserveCapacity(users.count + count)
        grants.reserveCapacity(grants.count + count)
        return (0..<count).map { _ in
            let user = add(SimulatedUser(id: Invented.userID(), teamID: groups[group].teamID, address: address.invented()))
            return signIn(user, clientID: clientID, group: group, options, now: now)
        }
    }

    mutating func signIn(_ people: [Int], _ options: SignInOptions, now: Moment) throws(SimulatorError) -> [SignIn] {
        let (clientID, group) = try client(of: options)
        for user in people {
            try requireAccount(of: user)
            if users[user].teamID != groups[group].teamID { throw .unknownUser(users[user].id) }
        }
        return people.map { signIn($0, clientID: clientID, group: group, options, now: now) }
    }

    private func client(of options: SignInOptions) throws(SimulatorError) -> (String, Int) {
        let clientID = options.clientID ?? groups[0].primaryAppID
        return (clientID, try group(ofClient: clientID))
    }

    private mutating func signIn(_ user: Int, clientID: String, group: Int, _ options: SignInOptions, now: Moment) -> SignIn {
        let at = options.at ?? now
        let grant = add(Grant(user: user, group: group, clientID: clientID, grantedAt: at))
        var refreshToken: String?
        var code: String?
        switch options.credential ?? .refreshToken {
        case .refreshToken:
            let text = Invented.refreshToken()
            grants[grant].hasRefreshToken = true
            remember(text, .refresh, of: grant)
            refreshToken = text
        case .code:
            let text = Invented.authorizationCode()
            let expiry = at + configuration.codeLife
            grants[grant].code = Grant.Code(redirectURI: options.redirectURI, nonce: options.nonce, expiresAt: expiry)
            remember(text, .code, of: grant)
            code = text
        case .nothing: break
        }
        return SignIn(
            userID: users[user].id,
            clientID: clientID,
            refreshToken: refreshToken,
            code: code,
            idToken: nil,
            redirectURI: options.redirectURI,
            nonce: options.nonce,
            email: users[user].address?.text,
            emailIsPrivate: users[user].address?.isPrivate,
            grantedAt: at
        )
    }

    func requireAccount(of user: Int) throws(SimulatorError) { if users[user].deletedAt != nil { throw .accountDeleted(users[user].id) } }

    /// Whether a person's consent to an app group stands.
    func isConsented(_ user: Int, _ group: Int) -> Bool {
        users[user].grants.contains { grants[$0].group == group && grants[$0].isConsented }
    }

    mutating func endConsent(of user: Int, in group: Int, _ cause: Grant.Ending.Cause, at moment: Moment) {
        for grant in users[user].grants where grants[grant].group == group && grants[grant].isConsented {
            grants[grant].end(cause, at: moment)
        }
    }

    func draft(_ type: NotificationType, _ user: Int, _ group: Int, _ emission: Emission, now: Moment) -> NotificationDraft {
        let audience =
            switch emission.audience?.rawValue {
            case nil, "latest": latestClient(of: user, in: group)
            case "primary": groups[group].primaryAppID
            case let text?: text
            }
        return NotificationDraft(
            id: Invented.notificationID(),
            type: type,
            userID: users[user].id,
            audience: audience,
            address: users[user].address,
            eventTime: emission.eventTime ?? now,
            issuedAt: emission.issuedAt ?? now,
            emission: emission,
            key: signingKeys.current
        )
    }

    private func latestClient(of user: Int, in group: Int) -> String {
        let latest = users[user].grants.last { grants[$0].group == group }
        return latest.map { grants[$0].clientID } ?? groups[group].primaryAppID
    }
}

extension AddressKind {
    fileprivate func invented() -> EmailAddress? {
        switch self {
        case .relay: EmailAddress(text: Invented.relayAddress(), isPrivate: true)
        case .own: EmailAddress(text: Invented.ownAddress(), isPrivate: false)
        case .none: nil
        }
    }
}
