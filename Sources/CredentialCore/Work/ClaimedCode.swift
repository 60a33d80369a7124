// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A claimed row of `grant_queue` with an authorization code.
package struct ClaimedCode: Sendable {
    package var id: Int64
    package var claim: Claim
    /// The app of the client; nil if the store does not know the client.
    package var app: String?
    package var grantedAt: Timestamp
    /// When the row was first claimed.
    package var firstClaimedAt: Timestamp
    /// How often siwatch sent the code and got no usable answer.
    package var failures: Int
    /// Whether Apple may have taken the code in an earlier try without siwatch hearing the answer.
    package var isAnswerLost: Bool
    /// Apple's last word about the code, or why there was none; nil if the code was never sent.
    package var detail: String?
    /// The backend's text; nil if it is not UTF-8 or too long to be meant.
    package var content: Content?
    /// The team that asked Apple; nil before.
    package var teamID: String?
    /// What Apple's answer says of the client; nil before.
    package var clientAnswer: ClientAnswer?

    package struct Content: Sendable {
        package var clientID: String
        /// The user that the backend names; nil if only Apple is to name the user.
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

    /// When Apple no longer takes the code. A code that is dated ahead lives from its first claim.
    package var deadline: Timestamp { min(grantedAt, firstClaimedAt).advanced(by: AuthorizationCode.life) }

    /// Whether Apple's only word about the code is that it refuses the client. Apple has never looked at such a code.
    package var isBlamed: Bool { detail.map(ClientRefusal.isWord) ?? false }

    /// Whether siwatch may have sent the code before and died before it kept the answer.
    package var mayBeUsed: Bool { isAnswerLost || claim.attempts > 1 }
}

/// How a code ended, or why it is tried again.
package enum CodeVerdict: Sendable, Equatable {
    /// Apple issued tokens for the code and named the user.
    ///
    /// - Parameters:
    ///   - requestedAt: by Apple's clock.
    ///   - answeredAt: by our clock.
    ///   - realUserStatus: of the id_token.
    case exchanged(Grant, CredentialID, requestedAt: Timestamp, answeredAt: Timestamp, realUserStatus: Int? = nil)
    /// - Parameter detail: a few words for the log, without secrets.
    case rejected(GrantRejection, detail: String? = nil)
    /// The code's five minutes were over before siwatch sent it, or sent it again. Its row and client decide the logged reason.
    case late
    /// The answer says nothing about the code. siwatch tries it again while it lives.
    ///
    /// - Parameters:
    ///   - isAnswerLost: whether Apple may have taken the code.
    ///   - detail: a few words that stay with the row, without secrets; nil keeps the words that are there.
    case failed(at: Timestamp, isAnswerLost: Bool, detail: String? = nil)
    /// siwatch has not sent the code, because it had no permit.
    case unpermitted(at: Timestamp)
    /// No app names the client. The code waits for one as long as it lives.
    case unknownClient
}
