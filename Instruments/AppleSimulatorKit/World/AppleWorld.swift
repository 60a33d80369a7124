// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Everything that this Apple knows: groups, people, sign-ins, keys, faults and counts.
///
/// A plain value without clock or I/O. One lock guards it, and the holder of the lock passes the time in. People, sign-ins and groups refer
/// to each other by their index, which never changes.
package struct AppleWorld: Sendable {
    let configuration: SimulatorConfiguration
    var groups: [AppGroup]
    var users: [SimulatedUser] = []
    var grants: [Grant] = []
    var signingKeys: SigningKeys
    var notifications = NotificationLog()
    var faults = FaultScript()
    var counters = Counters()
    /// Where notifications go, if anywhere.
    var delivery: DeliveryTarget?
    /// How far Apple's clock is ahead of the machine's; negative if it is behind.
    var clockOffset = Duration.zero

    private var groupOfClient: [String: Int] = [:]
    private var userOfID: [String: Int] = [:]
    private var tokens: [String: IssuedToken] = [:]
    /// Client secrets with a good signature, by their text, because ES256 is slow too. Empties when it is full or keys change.
    private var verifiedSecrets: [String: ClientSecret] = [:]

    init(_ configuration: SimulatorConfiguration) throws {
        self.configuration = configuration
        (groups, delivery) = (configuration.groups, configuration.delivery)
        signingKeys = SigningKeys(count: configuration.signingKeyCount, signingBy: try configuration.signingKey?.renamed() ?? SigningKey())
        for (index, group) in groups.enumerated() {
            for clientID in group.clientIDs {
                precondition(groupOfClient.updateValue(index, forKey: clientID) == nil, "\(clientID) stands in two groups")
            }
        }
    }

    var now: Moment { .now(aheadBy: clockOffset) }

    // MARK: Finding

    func group(ofClient clientID: String) throws(SimulatorError) -> Int {
        guard let group = groupOfClient[clientID] else { throw .unknownClient(clientID) }
        return group
    }

    func user(_ id: String) throws(SimulatorError) -> Int {
        guard let user = userOfID[id] else { throw .unknownUser(id) }
        return user
    }

    /// The sign-in behind a code, a refresh token or an access token, if the token is of one of these kinds.
    func grant(of token: String, _ kinds: IssuedToken.Kind...) -> Int? {
        tokens[token].flatMap { kinds.contains($0.kind) ? $0.grant : nil }
    }

    /// The group of an operation on a user: that of `clientID` or, without it, of the user's latest sign-in.
    func group(of user: Int, clientID: String?) throws(SimulatorError) -> Int {
        if let clientID { return try group(ofClient: clientID) }
        guard let latest = users[user].grants.last else { throw .notAuthorized(users[user].id) }
        return grants[latest].group
    }

    // MARK: Remembering

    mutating func add(_ user: SimulatedUser) -> Int {
        users.append(user)
        userOfID[user.id] = users.count - 1
        return users.count - 1
    }

    mutating func add(_ grant: Grant) -> Int {
        grants.append(grant)
        users[grant.user].grants.append(grants.count - 1)
        return grants.count - 1
    }

    mutating func remember(_ token: String, _ kind: IssuedToken.Kind, of grant: Int) {
        tokens[token] = IssuedToken(grant: grant, kind: kind)
    }

    /// Gives a sign-in its next access token. Forgets the previous one, so that a million refreshes do not fill the memory.
    mutating func renewAccessToken(of grant: Int) -> String {
        if let old = grants[grant].accessToken { tokens[old] = nil }
        let new = Invented.accessToken()
        grants[grant].accessToken = new
        remember(new, .access, of: grant)
        return new
    }

    // MARK: Client secrets

    private static let rememberedSecrets = 10_000

    /// Whether `text` proves that the caller is the client `clientID`.
    mutating func authenticate(_ clientID: String, secret text: String, now: Moment) throws(ClientSecretFlaw) {
        guard let group = groupOfClient[clientID].map({ groups[$0] }) else { throw .unknownClient }
        let secret: ClientSecret
        if let known = verifiedSecrets[text] {
            secret = known
        } else {
            secret = try ClientSecret(text, group: group)
            if verifiedSecrets.count == Self.rememberedSecrets { verifiedSecrets = [:] }
            verifiedSecrets[text] = secret
        }
        try secret.check(clientID: clientID, group: group, now: now)
    }

    /// Enables a key for the group of `clientID`, as the developer portal does.
    mutating func register(_ key: RegisteredKey, for clientID: String) throws(SimulatorError) {
        let group = try group(ofClient: clientID)
        groups[group].keys.removeAll { $0.id == key.id }
        groups[group].keys.append(key)
        verifiedSecrets = [:]
    }

    /// Revokes a key, as the developer portal does. Every secret that it signed is worthless from now on.
    mutating func revokeKey(_ id: String) throws(SimulatorError) {
        guard groups.contains(where: { $0.keys.contains { $0.id == id } }) else { throw .unknownKey(id) }
        for index in groups.indices { groups[index].keys.removeAll { $0.id == id } }
        verifiedSecrets = [:]
    }
}
