// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

public import AsyncHTTPClient
import Foundation

/// What a backend tells siwatch and asks of it.
///
/// Each method throws `SiwatchError`. If it is temporary, `signIn` and `delete` try again for ten seconds first, the others for `patience`
/// in all. From then on calls of that kind throw it at once, in all tasks. Every `away` one of them asks whether siwatch is back. All tries
/// of a call have the same key, so siwatch keeps the request once.
///
/// Points in time are in milliseconds since 1970 UTC. docs/schema.md explains states, outcomes and reasons.
public struct SiwatchClient: Sendable {
    let base: String
    let token: String
    let timeout, patience: Duration
    let absence: Absence
    let http: HTTPClient

    /// Between two waits, because a siwatch that is about to stop answers at once.
    static let breath = Duration.milliseconds(200)

    /// - Parameters:
    ///   - url: `http://host:port`, `https://host:port` or `unix:/path/to/socket`.
    ///   - token: as it stands in its file; spaces and lines around it do not matter.
    ///   - timeout: how long siwatch may take for an answer, besides the time that it is asked to wait.
    ///   - patience: how long a question may take in all while siwatch does not answer.
    ///   - away: how long calls are then answered at once.
    ///   - http: a client that outlives this one. Over HTTPS on a network that is not yours, let it trust only the authority of siwatch's
    ///     certificate: async-http-client takes a certificate for the server's address where it should ask for one of its name.
    /// - Throws: `InvalidArgument`
    public init(
        url: String,
        token: String,
        timeout: Duration = .seconds(5),
        patience: Duration = .seconds(2),
        away: Duration = .seconds(5),
        http: HTTPClient = .shared
    ) throws {
        let socket = url.hasPrefix("unix:/") ? URL(httpURLWithSocketPath: String(url.dropFirst("unix:".count))) : nil
        let address = socket?.absoluteString ?? url
        guard socket != nil || Self.isAddress(url) else {
            throw InvalidArgument("The URL has to be http://host:port, https://host:port or unix:/path/to/socket.")
        }
        base = address.hasSuffix("/") ? String(address.dropLast()) : address
        self.token = token.trimmingCharacters(in: .whitespacesAndNewlines)
        guard self.token.isWord else { throw InvalidArgument("The token is none that siwatch secret new token made.") }
        self.timeout = timeout
        self.patience = patience
        absence = Absence(length: away)
        self.http = http
    }

    private static func isAddress(_ text: String) -> Bool {
        guard text.isWord, let url = URLComponents(string: text), ["http", "https"].contains(url.scheme) else { return false }
        let isBare = url.user == nil && url.password == nil && url.query == nil && url.fragment == nil
        return url.host?.isEmpty == false && isBare && (0...65_535).contains(url.port ?? 0)
    }

    /// Tells a sign-in, and waits for its outcome. It is `waiting` if that was too short.
    ///
    /// With a `code`, siwatch exchanges it at Apple. With a `refreshToken`, or with neither, you have verified the sign-in yourself.
    ///
    /// - Parameter key: a text of your own: visible characters of ASCII. A later call with it is about the same sign-in.
    /// - Throws: `SignInRejected`; `InvalidArgument` for another key.
    public func signIn(
        clientID: String,
        code: String? = nil,
        nonce: String? = nil,
        redirectURI: String? = nil,
        userID: String? = nil,
        refreshToken: String? = nil,
        email: String? = nil,
        isPrivateEmail: Bool? = nil,
        signedInAt: Int64? = nil,
        wait: Duration = .seconds(10),
        key: String? = nil
    ) async throws -> SignIn {
        let deadline = ContinuousClock.now + wait
        var part = wait.seconds(upTo: 10)
        let told = NewSignIn(
            clientID: clientID,
            code: code,
            nonce: nonce,
            redirectURI: redirectURI,
            userID: userID,
            refreshToken: refreshToken,
            email: email,
            isPrivateEmail: isPrivateEmail,
            signedInAt: signedInAt,
            wait: part
        )
        var signIn: SignIn = try await post("/v1/sign-ins", told, key: key, wait: part)
        while signIn.outcome == "waiting" {
            part = (deadline - .now).seconds(upTo: 10)
            if part == 0 { break }
            try await Task.sleep(for: Self.breath)
            signIn = try await get("/v1/sign-ins/\(signIn.id)", ["wait": "\(part)"], wait: part, patience: .seconds(10))
        }
        if signIn.outcome == "rejected" || signIn.outcome == "in_future" {
            throw SignInRejected(reason: signIn.reason ?? signIn.outcome, detail: signIn.detail, id: signIn.id)
        }
        return signIn
    }

    private struct NewSignIn: Encodable {
        let clientID: String
        let code, nonce, redirectURI, userID, refreshToken, email: String?
        let isPrivateEmail: Bool?
        let signedInAt: Int64?
        let wait: Int
    }

    /// Tells that a user has deleted the account. siwatch then revokes the user's tokens at Apple.
    ///
    /// - Parameter requestedAt: in milliseconds since 1970; nil for now.
    public func delete(clientID: String, userID: String, requestedAt: Int64? = nil, key: String? = nil) async throws -> Deletion {
        try await post("/v1/deletions", NewDeletion(clientID: clientID, userID: userID, requestedAt: requestedAt), key: key)
    }

    private struct NewDeletion: Encodable {
        let clientID, userID: String
        let requestedAt: Int64?
    }

    /// How far a deletion is.
    public func deletion(_ id: String) async throws -> Deletion { try await get("/v1/deletions/\(id)") }

    /// The state of a user, or nil if siwatch does not know the user.
    ///
    /// - Parameter app: needed if there are several.
    public func state(of userID: String, app: String? = nil) async throws -> User? {
        do {
            let user: User = try await get("/v1/users/\(userID.percentEncoded)", ["app": app])
            return user
        } catch let error as SiwatchError where error.type == Problem.notFound {
            return nil
        }
    }

    /// Whether a session is to end. Ask at each request, and after the commit of a new session.
    public func endsSession(of userID: String, signedInAt: Int64, app: String? = nil) async throws -> Bool {
        let path = "/v1/users/\(userID.percentEncoded)/ends-session"
        let end: SessionEnd = try await get(path, ["signed_in_at": "\(signedInAt)", "app": app])
        return end.endsSession
    }

    private struct SessionEnd: Decodable {
        let endsSession: Bool
    }

    /// The `id` after which to follow at first. Keep it, then ask `endsSession` for each session that you keep.
    public func position() async throws -> String { try await position(patience: nil) }

    func position(patience: Duration?) async throws -> String {
        let page: Page = try await get("/v1/changes", patience: patience)
        return page.next
    }

    /// The changes after the one with the id `after`, or from now on, for ever. Keep the `id` of each that you have handled.
    ///
    /// It tries again for as long as siwatch does not answer. Each request waits up to `wait`, 25 seconds at most. Its iterator throws
    /// `ChangesGone`.
    public func changes(after: String? = nil, app: String? = nil, wait: Duration = .seconds(25)) -> Changes {
        Changes(client: self, after: after, app: app, wait: wait.seconds(upTo: 25))
    }
}
