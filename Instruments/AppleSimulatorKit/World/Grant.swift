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

    /// An authorization code: good once, for five minutes.
    struct Code: Sendable {
        static let life: Duration = .seconds(300)

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

    /// Ends the sign-in, or gives its end a greater cause.
    mutating func end(_ cause: Ending.Cause, at moment: Moment) {
        if let ending, ending.cause.rawValue >= cause.rawValue { return }
        ending = Ending(cause: cause, at: moment)
        answer = nil
    }
}
