// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore

/// One sign-in of a user at a client, with its code, tokens and history.
struct Grant: Sendable {
    let user: Int
    let group: Int
    let clientID: String
    let grantedAt: Moment
    var code: Code?
    var hasRefreshToken = false
    var accessToken: String?
    /// Cause and time of its end; `nil` while it lives.
    var ending: Ending?
    var answer: PreparedAnswer?
    var refreshes = RefreshHistory()
    /// Requests to exchange its code and to revoke one of its tokens, whatever their outcome.
    var exchanges = 0
    var revocations = 0

    var isAlive: Bool { ending == nil }

    /// Whether the person's consent stands. A new password kills the tokens but leaves the consent.
    var isConsented: Bool { ending == nil || ending?.cause == .passwordChanged }
    var hasCredential: Bool { hasRefreshToken || code != nil }

    /// An authorization code: good once, for ``SimulatorConfiguration/codeLife``.
    struct Code: Sendable {
        let redirectURI: String?
        let nonce: String?
        let expiresAt: Moment
        var isUsed = false
    }

    struct Ending: Sendable {
        let cause: Cause
        let at: Moment

        /// In rising order: a later cause replaces an earlier one only if it is greater.
        enum Cause: Int, Sendable {
            case passwordChanged, consentRevoked, revokedByApp, accountDeleted
        }
    }

    /// The last successful answer to a refresh, ready to repeat.
    struct PreparedAnswer: Sendable {
        let body: ByteBuffer
        let madeAt: Moment
        let keyID: String
    }

    mutating func end(_ cause: Ending.Cause, at moment: Moment) {
        if let ending, ending.cause.rawValue >= cause.rawValue { return }
        ending = Ending(cause: cause, at: moment)
        answer = nil
    }
}

/// The requests about one refresh token, or about all of a user at a client.
package struct RefreshHistory: Sendable, Codable, Equatable {
    /// How many of the latest moments it keeps for each token.
    static let kept = 256

    /// Every request, whatever its outcome.
    package private(set) var requests = 0
    /// Requests that got a 200 or an `invalid_grant`, scripted ones included. A lost answer does not count.
    package private(set) var answers = 0
    package private(set) var answeredAt: [Moment] = []

    init(merging histories: [RefreshHistory] = []) {
        requests = histories.reduce(0) { $0 + $1.requests }
        answers = histories.reduce(0) { $0 + $1.answers }
        answeredAt = histories.flatMap(\.answeredAt).sorted()
    }

    enum CodingKeys: String, CodingKey {
        case requests, answers
        case answeredAt = "answered_at"
    }

    mutating func record(isAnswer: Bool, at now: Moment) {
        requests += 1
        guard isAnswer else { return }
        answers += 1
        if answeredAt.count == Self.kept { answeredAt.removeFirst() }
        answeredAt.append(now)
    }

    /// The shortest time between two answers. It proves that the program asked about no token twice in a day.
    var shortestGap: Duration? { zip(answeredAt, answeredAt.dropFirst()).map { $1 - $0 }.min() }
}

/// The meaning of a secret text that this Apple issued. Apple never takes one kind for another.
struct IssuedToken: Sendable {
    enum Kind: Sendable {
        case code, refresh, access
    }

    /// Its sign-in, by index.
    let grant: Int
    let kind: Kind
}
