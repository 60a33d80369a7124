// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What backends tell siwatch and ask of it. Over HTTP a door does this for them; over SQL they do it themselves, with the same rows.
package protocol BackendDesk: Sendable {
    /// Appends rows to the queues, in one transaction, and returns the row of each request. After any error but `outcomeUnknown` nothing is
    /// kept.
    func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest]
    /// Those of the sign-ins that are settled: one query, however many wait.
    func settledSignIns(among ids: Set<Int64>) async throws -> [Int64]
    /// The outcomes of sign-ins, by the ids of their rows. Unknown ids are left out.
    func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome]
    /// Nil if no row has the id, or if its receipt is past its retention.
    func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome?
    func userState(of userID: String, in app: String) async throws -> UserState?
    /// The changes after one of them, oldest first; those of all apps if `app` is nil.
    func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage
}

package enum BackendRequest: Sendable, Equatable {
    case notification([UInt8])
    case signIn(ToldSignIn, key: RequestKey?)
    /// The user has deleted the account: at the moment of the insert if there is no time.
    case deletion(CredentialID, requestedAt: Timestamp?, key: RequestKey?)
}

/// A sign-in, as a backend tells it. docs/schema.md, `grant_queue`, explains each value.
package struct ToldSignIn: Sendable, Equatable {
    package var clientID: String
    /// Nil only with a code.
    package var userID: String?
    package var proof: Proof?
    package var address: EmailAddress?
    /// Nil for the moment of the insert.
    package var signedInAt: Timestamp?

    package enum Proof: Sendable, Equatable {
        case code(Secret, redirectURI: String?, nonce: String?)
        case refreshToken(Secret)
    }

    package init(clientID: String, userID: String? = nil, proof: Proof? = nil, address: EmailAddress? = nil, signedInAt: Timestamp? = nil) {
        self.clientID = clientID
        self.userID = userID
        self.proof = proof
        self.address = address
        self.signedInAt = signedInAt
    }

    /// All that is told, so that two lists differ if their sign-ins do.
    package var parts: [String?] {
        let proof: [String?] =
            switch self.proof {
            case .code(let code, let redirectURI, let nonce): ["code", code.reveal, redirectURI, nonce]
            case .refreshToken(let token): ["token", token.reveal]
            case nil: [nil]
            }
        let address = [self.address?.text, self.address?.isPrivate.map { "\($0)" }]
        return [clientID, userID, signedInAt.map { "\($0.milliseconds)" }] + proof + address
    }
}

extension [String?] {
    /// The parts as bytes for a digest. None of them can be mistaken for a part of another.
    package var digestible: [UInt8] { flatMap { "\($0?.utf8.count ?? -1):\($0 ?? "")".utf8 } }
}

/// Makes a request safe to repeat: the second one with the key tells nothing anew.
package struct RequestKey: Sendable, Equatable {
    /// Who tells. Each client has keys of its own.
    package var client: String
    package var key: String
    /// Of what is told, so that a key that is used for something else is found out.
    package var digest: [UInt8]

    package init(client: String, key: String, digest: [UInt8]) {
        (self.client, self.key, self.digest) = (client, key, digest)
    }

    package static let life = Duration.hours(24)
}

package enum AppendedRequest: Sendable, Equatable {
    /// Its row, which an earlier request with the same key may have made.
    case row(RowReference)
    /// The key has told this before, and the row is erased: the user was forgotten, or its retention is over. Nothing is kept.
    case erased
    /// The key was used for another request. Nothing is kept.
    case keyUsed
}
