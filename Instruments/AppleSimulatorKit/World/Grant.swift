// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import NIOCore

/// One sign-in of a user at a client, and what it left behind at Apple.
struct Grant: Sendable {
    let user: Int
    let group: Int
    let clientID: String
    let grantedAt: Moment
    var code: Code?
    var hasRefreshToken = false
    var accessToken: String?
    /// Why and when it ended; `nil` while it lives.
    var ending: Ending?
    var answer: PreparedAnswer?
    var refreshes = RefreshHistory()
    /// How often its code was to be exchanged, and one of its tokens revoked, whatever became of it.
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

        /// In rising order: a later one replaces the cause of an ending only if it weighs more.
        enum Cause: Int, Sendable {
            case passwordChanged, consentRevoked, revokedByApp, accountDeleted
        }
    }

    /// The last successful answer to a refresh, ready to be given again.
    struct PreparedAnswer: Sendable {
        let body: ByteBuffer
        let madeAt: Moment
        let keyID: String
    }

    /// Ends the sign-in, or gives its end a weightier cause.
    mutating func end(_ cause: Ending.Cause, at moment: Moment) {
        if let ending, ending.cause.rawValue >= cause.rawValue { return }
        ending = Ending(cause: cause, at: moment)
        answer = nil
    }
}
