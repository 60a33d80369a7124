// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

extension SiwatchClient {
    /// A sign-in. While its `outcome` is `waiting`, nobody is signed in and there is no `user`.
    public struct SignIn: Sendable, Decodable, Equatable {
        public let id: String
        public let clientID, outcome: String
        let reason, detail: String?
        /// Keep it with the session, because `endsSession` asks for it.
        public let signedInAt: Int64?
        /// Apple's guess whether a person signs in: 0 unsupported, 1 unknown, 2 likely real.
        public let realUserStatus: Int?
        public let settledAt: Int64?
        public let user: User?
    }

    /// What siwatch knows of a user, in one app.
    public struct User: Sendable, Decodable, Equatable {
        public let app, userID: String
        public let state: State
        public let reason: String
        public let changedAt, verifiedAt: Int64?
        public let email: String?
        public let isPrivateEmail: Bool?
        public let emailForwarding: String?
    }

    /// As Apple's own `ASAuthorizationAppleIDProvider.CredentialState`.
    public enum State: String, Sendable, Decodable {
        case authorized, revoked, notFound
    }

    /// The deletion of an account: `waiting`, `held` until an operator confirms it, or `done`. `tokens` is the receipt.
    public struct Deletion: Sendable, Decodable, Equatable {
        public let id: String
        public let outcome: String
        public let requestedAt: Int64?
        public let tokens: [RevokedToken]
    }

    /// What became of one token. `proved` means that Apple rejected it after siwatch revoked it.
    public struct RevokedToken: Sendable, Decodable, Equatable {
        public let clientID, outcome: String
        public let reason: String?
        public let settledAt: Int64?
    }

    /// A change of a user at one client: of the state or of the e-mail address, as `kind` says.
    public struct Change: Sendable, Decodable, Equatable, Identifiable {
        public let id: String
        public let app, clientID, userID, kind: String
        public let fromState, toState, reason, email, emailForwarding, source: String?
        public let occurredAt, recordedAt: Int64
    }

    struct Page: Decodable {
        let changes: [Change]
        let next: String
    }
}
