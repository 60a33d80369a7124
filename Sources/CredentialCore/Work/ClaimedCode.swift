// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A claimed row of `grant_queue` with an authorization code.
package struct ClaimedCode: Sendable {
    package var id: Int64
    package var claim: Claim
    package var app: String?
    package var grantedAt: Timestamp
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

package enum CodeVerdict: Sendable, Equatable {
    /// Apple issued tokens for the code and named the user. `requestedAt` is by Apple's clock, `answeredAt` by ours.
    case exchanged(Grant, CredentialID, requestedAt: Timestamp, answeredAt: Timestamp, realUserStatus: Int? = nil)
    /// - Parameter detail: a few words for the log, without secrets.
    case rejected(GrantRejection, detail: String? = nil)
    /// The code's five minutes were over before siwatch sent it, or sent it again. Its row and client decide the logged reason.
    case late
    /// The answer says nothing about the code, which is tried again while it lives. `detail` stays with the row; nil keeps the words there.
    case failed(at: Timestamp, isAnswerLost: Bool, detail: String? = nil)
    /// siwatch has not sent the code, because it had no permit.
    case unpermitted(at: Timestamp)
    /// No app names the client. The code waits for one as long as it lives.
    case unknownClient
}

package enum AuthorizationCode {
    /// Apple documents five minutes.
    package static let life = Duration.minutes(5)

    /// Waits after the first, second, … failure, short because a user is waiting. The last one repeats.
    private static let backOff: [Duration] = [.milliseconds(500), .seconds(1), .seconds(2), .seconds(5)]

    package static var longestWait: Duration { backOff.wait(afterFailures: .max) }

    static func wait(afterFailures failures: Int) -> Duration { backOff.wait(afterFailures: failures) }
}

/// An unclaimed row of `grant_queue` with a code that is due.
package struct WaitingCode: Sendable {
    package var id: Int64
    package var attempts: Int
    package var client: String?
    package var app: String?
    /// The backend's time, in milliseconds since 1970.
    package var grantedAt: Int64
    /// The earlier of `grantedAt` and siwatch's first claim, in milliseconds since 1970.
    package var livesSince: Int64

    package init(id: Int64, attempts: Int, client: String?, app: String?, grantedAt: Int64, livesSince: Int64) {
        (self.id, self.attempts, self.client) = (id, attempts, client)
        (self.app, self.grantedAt, self.livesSince) = (app, grantedAt, livesSince)
    }

    /// How many clients one claim searches for codes, beside the known clients.
    package static let mostClients = 100

    /// The latest possible due time of a code. A later one came from a clock that has since been set back.
    package static func furthest(at now: Timestamp) -> Timestamp { now.advanced(by: AuthorizationCode.life * 2) }

    /// A code that lives since this time or longer has expired.
    package static func latest(at now: Timestamp) -> Int64 { now.advanced(by: .zero - AuthorizationCode.life).milliseconds }

    /// The codes to claim, nearest deadline first: as many as there are permits, and the codes that siwatch will not send.
    package static func choose(
        _ waiting: [WaitingCode],
        upTo limit: Int,
        permits: [String: Int],
        quotas: [String: Int],
        at now: Timestamp
    ) -> [(id: Int64, attempts: Int)] {
        var (permits, quotas) = (permits, quotas)
        var chosen: [(id: Int64, attempts: Int)] = []
        for code in waiting.sorted(by: { ($0.grantedAt, $0.id) < ($1.grantedAt, $1.id) }) where chosen.count < limit {
            if let app = code.app, let client = code.client, let left = permits[app], code.livesSince > latest(at: now) {
                guard left > 0, quotas[client] ?? 1 > 0 else { continue }
                permits[app] = left - 1
                quotas[client]? -= 1
            }
            chosen.append((code.id, code.attempts))
        }
        return chosen
    }
}
