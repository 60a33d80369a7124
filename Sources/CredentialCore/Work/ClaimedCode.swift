// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A row of `grant_queue` with an authorization code, as claimed.
package struct ClaimedCode: Sendable {
    package var id: Int64
    package var claim: Claim
    /// The app of its client; nil where the store knows none.
    package var app: String?
    package var grantedAt: Timestamp
    /// When the row was first claimed.
    package var firstClaimedAt: Timestamp
    /// Times that it was sent and the road failed.
    package var failures: Int
    /// Whether Apple may have taken it before, with nobody to hear the answer.
    package var isAnswerLost: Bool
    /// Apple's last word about it, or why there was none; nil where it was never sent.
    package var detail: String?
    /// What the backend wrote; nil where it is not UTF-8 or too long to be meant.
    package var content: Content?
    /// The team that asked Apple, once it has.
    package var teamID: String?
    /// What Apple said of the client, once it was asked.
    package var clientAnswer: ClientAnswer?

    package struct Content: Sendable {
        package var clientID: String
        /// Whose the backend says it is; nil where it leaves that to Apple.
        package var userID: String?
        package var code: Secret
        package var redirectURI: String?
        package var nonce: String?

        package init(clientID: String, userID: String? = nil, code: Secret, redirectURI: String? = nil, nonce: String? = nil) {
            self.clientID = clientID
            self.userID = userID
            self.code = code
            self.redirectURI = redirectURI
            self.nonce = nonce
        }
    }

    package init(
        id: Int64,
        claim: Claim,
        app: String?,
        grantedAt: Timestamp,
        firstClaimedAt: Timestamp,
        failures: Int = 0,
        isAnswerLost: Bool = false,
        detail: String? = nil,
        content: Content?
    ) {
        self.id = id
        self.claim = claim
        self.app = app
        self.grantedAt = grantedAt
        self.firstClaimedAt = firstClaimedAt
        self.failures = failures
        self.isAnswerLost = isAnswerLost
        self.detail = detail
        self.content = content
    }

    /// When Apple takes it no more. One that is dated ahead lives from when it was first seen.
    package var deadline: Timestamp { min(grantedAt, firstClaimedAt).advanced(by: AuthorizationCode.life) }

    /// Whether all that Apple has said of it is that it refuses the client: it has never looked at the code.
    package var isBlamed: Bool { detail.map(ClientRefusal.isWord) ?? false }

    /// Whether somebody may have sent it before, and died before the answer was kept.
    package var mayBeUsed: Bool { isAnswerLost || claim.attempts > 1 }
}

/// What became of a code.
package enum CodeVerdict: Sendable, Equatable {
    /// Apple issued tokens for it, and said to whom.
    ///
    /// - Parameters:
    ///   - requestedAt: by Apple's clock.
    ///   - answeredAt: by ours.
    case exchanged(Grant, CredentialID, requestedAt: Timestamp, answeredAt: Timestamp)
    /// - Parameter detail: a few words for the log, which hold no secret.
    case rejected(GrantRejection, detail: String? = nil)
    /// Its five minutes were over before it was sent, or sent again. Its row and its client say what it ends as.
    case late
    /// Nothing about the code: it is tried again while it lives.
    ///
    /// - Parameters:
    ///   - isAnswerLost: whether Apple may have taken it.
    ///   - detail: a few words that stay with the row and hold no secret; nil leaves those that are there.
    case failed(at: Timestamp, isAnswerLost: Bool, detail: String? = nil)
    /// It has not been sent, for want of a permit.
    case unpermitted(at: Timestamp)
    /// No app names its client. It waits for one as long as it lives.
    case unknownClient
}
