// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Actions of people. Each function checks all people before it changes the first.
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
            if users[user].deletedAt != nil { throw .accountDeleted(users[user].id) }
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
        switch options.credential {
        case .refreshToken:
            let text = Invented.refreshToken()
            grants[grant].hasRefreshToken = true
            remember(text, .refresh, of: grant)
            refreshToken = text
        case .code:
            let text = Invented.authorizationCode()
            grants[grant].code = Grant.Code(
                redirectURI: options.redirectURI,
                nonce: options.nonce,
                expiresAt: at + Grant.Code.life
            )
            remember(text, .code, of: grant)
            code = text
        case .none:
            break
        }
        return SignIn(
            userID: users[user].id,
            clientID: clientID,
            refreshToken: refreshToken,
            code: code,
            redirectURI: options.redirectURI,
            nonce: options.nonce,
            email: users[user].address?.text,
            emailIsPrivate: users[user].address?.isPrivate,
            grantedAt: at
        )
    }

    /// People stop using Sign in with Apple for an app group. All their tokens in it die.
    mutating func revokeConsent(
        of people: [Int],
        clientID: String?,
        _ emission: Emission,
        now: Moment
    ) throws(SimulatorError) -> [NotificationDraft] {
        var consents: [(user: Int, group: Int)] = []
        for user in people {
            let group = try group(of: user, clientID: clientID)
            guard isConsented(user, group) else { throw .notAuthorized(users[user].id) }
            consents.append((user, group))
        }
        return consents.map { user, group in
            endConsent(of: user, in: group, .consentRevoked, at: emission.eventTime ?? now)
            return draft(.consentRevoked, user, group, emission, now: now)
        }
    }

    /// People delete their Apple Accounts. All their tokens die, and each app group that had their consent gets a notification.
    mutating func deleteAccounts(of people: [Int], _ emission: Emission, now: Moment) throws(SimulatorError) -> [NotificationDraft] {
        for user in people where users[user].deletedAt != nil { throw .accountDeleted(users[user].id) }
        return people.flatMap { user in
            let at = emission.eventTime ?? now
            users[user].deletedAt = at
            return groups.indices.filter { isConsented(user, $0) }.map { group in
                endConsent(of: user, in: group, .accountDeleted, at: at)
                return draft(.accountDeleted, user, group, emission, now: now)
            }
        }
    }

    /// People switch the forwarding of relay mail off or on. Their tokens stay as they are.
    mutating func setForwarding(
        of people: [Int],
        _ isForwarding: Bool,
        clientID: String?,
        _ emission: Emission,
        now: Moment
    ) throws(SimulatorError) -> [NotificationDraft] {
        var mailboxes: [(user: Int, group: Int)] = []
        for user in people {
            if users[user].deletedAt != nil { throw .accountDeleted(users[user].id) }
            guard users[user].address?.isPrivate == true else { throw .noRelayAddress(users[user].id) }
            mailboxes.append((user, try group(of: user, clientID: clientID)))
        }
        return mailboxes.map { user, group in
            users[user].isForwarding = isForwarding
            return draft(isForwarding ? .emailEnabled : .emailDisabled, user, group, emission, now: now)
        }
    }

    /// People change the password of their Apple Accounts. Their tokens die, and Apple sends no notification.
    mutating func changePasswords(of people: [Int], now: Moment) throws(SimulatorError) {
        for user in people where users[user].deletedAt != nil { throw .accountDeleted(users[user].id) }
        for user in people {
            for grant in users[user].grants where grants[grant].hasRefreshToken || grants[grant].code != nil {
                grants[grant].end(.passwordChanged, at: now)
            }
        }
    }

    /// Makes notifications about people without making them true.
    func claim(
        _ type: NotificationType,
        about people: [Int],
        clientID: String?,
        _ emission: Emission,
        now: Moment
    ) throws(SimulatorError) -> [NotificationDraft] {
        var drafts: [NotificationDraft] = []
        for user in people {
            drafts.append(draft(type, user, try group(of: user, clientID: clientID), emission, now: now))
        }
        return drafts
    }

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
        let style = emission.style ?? configuration.style
        let audience =
            switch style.audience {
            case .latestClient: latestClient(of: user, in: group)
            case .primaryAppID: groups[group].primaryAppID
            case .exactly(let text): text
            }
        return NotificationDraft(
            id: Invented.notificationID(),
            type: type,
            userID: users[user].id,
            audience: audience,
            address: users[user].address,
            eventTime: emission.eventTime ?? now,
            issuedAt: emission.issuedAt ?? now,
            style: style,
            isDelivered: emission.isDelivered,
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
