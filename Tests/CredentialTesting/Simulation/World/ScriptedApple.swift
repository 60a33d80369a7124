// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The truth about Apple and its users, as the simulation writes it. No process sees it.
struct ScriptedApple {
    struct SignIn {
        var credential: CredentialID
        var at: Timestamp
        var token: String?
        /// Whether Apple issued a code in place of a token. The backend never sees the token.
        var isByCode = false
        /// The app's team at the time, or since a transfer that the token has followed. Apple accepts the token from no other team.
        var team = 0
        /// When Apple ended it: consent revoked, account deleted, password changed, or revoked by the app.
        var endedAt: Timestamp?
    }

    struct Notice {
        enum Kind: String {
            case consentRevoked = "consent-revoked"
            case accountDeleted = "account-deleted"
            case emailDisabled = "email-disabled"
            case emailEnabled = "email-enabled"
            case unknown = "something-new"
        }

        var kind: Kind
        var credential: CredentialID
        var app: String
        var at: Timestamp
        var address: String?
        var keyID: String

        /// Whether it ends sign-ins.
        var isEnd: Bool {
            switch kind {
            case .consentRevoked, .accountDeleted: true
            case .emailDisabled, .emailEnabled, .unknown: false
            }
        }
    }

    enum Post {
        case notice(Notice)
        /// Any client can send anything.
        case rubbish
    }

    let apps: [SimulatedApp]
    /// Whether a revocation ends its token alone, and not all that the user has granted.
    let revokesAlone: Bool
    var signIns: [SignIn] = []
    private(set) var posts: [Post] = []
    var signInsOfToken: [String: Int] = [:]
    private var newest: [CredentialID: Int] = [:]
    private(set) var signInsOfUser: [String: [Int]] = [:]
    var codes: [Code] = []
    var identityTokens: [Identity] = []
    /// The key that Apple signs notifications with now, and all published keys.
    private(set) var signingKey = 1
    /// Apple's answers in place of the truth, by app.
    var weather: [String: Weather] = [:]
    /// The client that Apple answers with `invalid_client` from now on.
    var refused: String?
    /// The apps of clients that Apple has ever answered with `invalid_client`.
    var blamedApps: Set<String> = []
    /// Our key for each app, and how often its configuration was loaded.
    var identities: [String: (keyID: Int, load: Int)] = [:]
    /// The team of each client. Its operators configure the same team.
    private(set) var teams: [String: Int] = [:]

    init(apps: [SimulatedApp], revokesAlone: Bool = false) { (self.apps, self.revokesAlone) = (apps, revokesAlone) }

    // MARK: Actions of people

    mutating func signIn(_ credential: CredentialID, at now: Timestamp, withToken: Bool) -> SignIn {
        var signIn = SignIn(credential: credential, at: now, token: withToken ? "r\(signIns.count).\(credential.userID)" : nil)
        signIn.team = team(of: credential.clientID)
        if let token = signIn.token { signInsOfToken[token] = signIns.count }
        newest[credential] = signIns.count
        signInsOfUser[credential.userID, default: []].append(signIns.count)
        signIns.append(signIn)
        return signIn
    }

    /// A sign-in that brings the code with this number.
    mutating func signInByCode(_ credential: CredentialID, at now: Timestamp, redirectURI: String?) -> Int {
        _ = signIn(credential, at: now, withToken: false)
        signIns[signIns.count - 1].isByCode = true
        codes.append(Code(signIn: signIns.count - 1, issuedAt: now, redirectURI: redirectURI))
        return codes.count - 1
    }

    /// Ends a user's sign-ins, and signs a notification of it.
    mutating func end(_ user: String, of app: SimulatedApp, as kind: Notice.Kind, client: String, at now: Timestamp) -> Int {
        for index in signInsOfUser[user] ?? [] where signIns[index].endedAt == nil { signIns[index].endedAt = now }
        return sign(kind, CredentialID(clientID: client, userID: user), of: app, at: now)
    }

    /// Ends every token. From outside it looks like a revoked consent at the clients with a token. Apple sends no notification.
    mutating func changePassword(of user: String, at now: Timestamp) {
        let good = (signInsOfUser[user] ?? []).filter { signIns[$0].endedAt == nil }
        let clients = Set(good.filter { signIns[$0].token != nil }.map { signIns[$0].credential.clientID })
        for index in good where clients.contains(signIns[index].credential.clientID) { signIns[index].endedAt = now }
    }

    /// - Returns: the number of the post.
    mutating func sign(
        _ kind: Notice.Kind,
        _ credential: CredentialID,
        of app: SimulatedApp,
        address: String? = nil,
        at now: Timestamp
    ) -> Int {
        let notice = Notice(kind: kind, credential: credential, app: app.name, at: now, address: address, keyID: "key\(signingKey)")
        posts.append(.notice(notice))
        return posts.count - 1
    }

    mutating func forge() -> Int {
        posts.append(.rubbish)
        return posts.count - 1
    }

    mutating func rotateSigningKey() { signingKey += 1 }

    /// An app moves to the other of two teams.
    ///
    /// - Parameter withTokens: whether Apple accepts its tokens from that team now. Apple documents neither.
    mutating func transfer(_ app: SimulatedApp, withTokens: Bool) {
        for client in app.clientIDs { teams[client] = 1 - team(of: client) }
        guard withTokens else { return }
        for index in signIns.indices where app.clientIDs.contains(signIns[index].credential.clientID) {
            signIns[index].team = team(of: signIns[index].credential.clientID)
        }
    }

    // MARK: The truth

    /// Whether a token is good for a client: Apple issued it to the client, and nothing has ended it.
    func isAlive(_ token: String, at credential: CredentialID) -> Bool {
        signInsOfToken[token].map { signIns[$0].endedAt == nil && signIns[$0].credential == credential } ?? false
    }

    func team(of clientID: String) -> Int { teams[clientID] ?? 0 }

    /// Whether Apple accepts a token from the asking team: the token is good, and Apple issued it to this team.
    func isAccepted(_ token: String, at credential: CredentialID) -> Bool {
        isAlive(token, at: credential) && signInsOfToken[token].map { signIns[$0].team == team(of: credential.clientID) } ?? false
    }

    /// All tokens that a user's sign-ins ever brought to a backend.
    func tokens(of user: String) -> [String] { (signInsOfUser[user] ?? []).compactMap { signIns[$0].isByCode ? nil : signIns[$0].token } }

    /// Whether Apple has issued a token. It has not issued a truncated one.
    func isIssued(_ token: String) -> Bool { signInsOfToken[token] != nil }

    func wasIssued(_ token: String, to credential: CredentialID) -> Bool {
        signInsOfToken[token].map { signIns[$0].credential == credential } ?? false
    }

    /// Whether a token is good for a client, and belongs to another user.
    func isForeign(_ token: String, at credential: CredentialID) -> Bool {
        guard let signIn = signInsOfToken[token].map({ signIns[$0] }), signIn.credential.userID != credential.userID else { return false }
        return isAccepted(token, at: signIn.credential) && signIn.credential.clientID == credential.clientID
    }

    func newestSignIn(of credential: CredentialID) -> SignIn? { newest[credential].map { signIns[$0] } }

    /// Apple's answers to one client of an app in place of the truth.
    func weather(of clientID: String, in app: String) -> Weather? { clientID == refused ? .invalidClient : weather[app] }

    mutating func answer(
        _ token: String,
        of credential: CredentialID,
        in app: String,
        using generator: inout SeededGenerator
    ) -> EndpointAnswer<RefreshNews> {
        if let answer = weather(of: credential.clientID, in: app)?.answer(to: credential, using: &generator) {
            if case .misconfigured = answer { blamedApps.insert(app) }
            return answer
        }
        let namesNobody = weather[app] == .namesNobody
        if isForeign(token, at: credential) { return namesNobody ? .unnamed : .anotherUser }
        guard isAccepted(token, at: credential) else { return .rejected }
        return namesNobody ? .unnamed : .valid
    }
}

/// An app group as the simulated configuration names it.
struct SimulatedApp: Hashable {
    var name: String
    var clientIDs: [String]
}

/// Apple's answers in place of the truth, for a while.
enum Weather: Hashable {
    case outage
    case throttling(retryAfter: Duration?)
    /// Our key is wrong, and Apple says so.
    case invalidClient
    /// Our key is wrong, and Apple looks at the grant first: `invalid_grant` to every question.
    case wrongKey
    /// One client of the app is misconfigured: Apple issued its tokens to another one.
    case wrongClient(String)
    /// Apple rejects good tokens, in this share of the requests.
    case massRejection(Double)
    /// Apple rejects all tokens of one client, and exchanges its codes.
    case refreshesRejected(String)
    /// Answers that blame neither the token nor the client.
    case ambiguous
    /// Answers that come late or too late.
    case slow
    /// Answers without an id_token.
    case namesNobody

    /// Whether our configuration causes and ends it.
    var isOurFault: Bool {
        switch self {
        case .invalidClient, .wrongKey, .wrongClient: true
        case .outage, .throttling, .massRejection, .refreshesRejected, .ambiguous, .slow, .namesNobody: false
        }
    }

    /// Nil for the truth.
    func answer(to credential: CredentialID, using generator: inout SeededGenerator) -> EndpointAnswer<RefreshNews>? {
        switch self {
        case .outage: .unavailable("503", retryAfter: Bool.random(using: &generator) ? .seconds(120) : nil)
        case .throttling(let retryAfter): .throttled(retryAfter: retryAfter)
        case .invalidClient: .misconfigured("invalid_client")
        case .wrongKey: .rejected
        case .wrongClient(let clientID), .refreshesRejected(let clientID): credential.clientID == clientID ? .rejected : nil
        case .massRejection(let share): Double.random(in: 0..<1, using: &generator) < share ? .rejected : nil
        case .ambiguous: .ambiguous("invalid_request")
        case .slow, .namesNobody: nil
        }
    }
}
