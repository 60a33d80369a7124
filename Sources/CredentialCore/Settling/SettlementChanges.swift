// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Everything that a store writes for a folded batch, in one transaction. The store returns it after the commit.
package struct SettlementChanges: Sendable {
    /// One for each settlement, in the same order. Only the log finds a duplicate.
    package var results: [Settled] = []
    /// Unsigned notifications that left the quarantine's ring to make room, as the store found out.
    package var evicted = 0
    package var queueRows: [QueueRowChange] = []
    /// The touched users, in the order of their ids, so that neighbouring rows are written together.
    package var users: [UserRecord] = []
    package var announcements: [Announcement] = []
    package var counts: [StateOfApp: Int] = [:]
    package var tallies: [String: UserRecord.Tally] = [:]
    package var breakers: [String: RejectionBreaker] = [:]
    package var revocationLimits: [String: RevocationLimit] = [:]
    /// The breakers of all apps in the batch, changed or not. If the answer to an earlier commit was lost, the process does not know of the
    /// changes in that commit.
    package var knownBreakers: [String: RejectionBreaker] = [:]
    /// The apps whose breaker opened, even if it closed again. None of their rejections is pending any longer.
    package var openedApps: Set<String> = []
    package var admitted: [AdmittedRejection] = []
    /// The clients from which Apple accepted a token or a code, and when siwatch asked, by Apple's clock.
    package var validAt: [String: Timestamp] = [:]
    /// Like `validAt`, for tokens that Apple had accepted before.
    package var provedAt: [String: Timestamp] = [:]
    /// The clients whose refusal changed; nil for a client that Apple no longer refuses.
    package var refusals: [String: ClientRefusal?] = [:]
    package var checks = (answered: 0, failed: 0)
    /// The apps that got a new token to ask about.
    package var replenished: Set<String> = []

    package init() {}

    package struct StateOfApp: Sendable, Hashable {
        package var app: String
        package var state: CredentialState
    }
}

package enum QueueRowChange: Sendable {
    /// - Parameter settlement: the index in the batch.
    case logNotification(ClaimedNotification, VerifiedNotification, app: String, NotificationLogOutcome, settlement: Int)
    case quarantine(ClaimedNotification, RejectionReason, detail: String)
    case postponeNotification(Int64, until: Timestamp)
    case logGrant(GrantLogEntry)
    /// - Parameter waitsSince: since when the row has waited for its client or its time, by a clock that could be trusted.
    case postponeGrant(Int64, until: Timestamp, waitsSince: Timestamp?, isAhead: Bool)
    case postponeCode(ClaimedCode, until: Timestamp)
    case revocation(RevocationChange)
}

package enum RevocationChange: Sendable {
    case open(ClaimedRevocationRequest, CredentialID, [TokenToRevoke])
    case postpone(ClaimedRevocationRequest, until: Timestamp)
    /// The request waits until an operator confirms or drops it.
    case hold(ClaimedRevocationRequest)
    /// The request has no token.
    case close(ClaimedRevocationRequest, RevocationOutcome, RevocationRejection?)
    case proceed(DueRevocation, RevocationProof, due: Timestamp)
    /// A new request, as of a time, for a token that came after the requests that name it. With the token it is open already.
    case again(CredentialID, at: Timestamp, TokenToRevoke?, due: Timestamp)
    /// The receipt is written. The request leaves the queue with its last token.
    case finish(DueRevocation, RevocationProof, RevocationOutcome, RevocationRejection?)
}

package struct GrantLogEntry: Sendable {
    package var id: Int64
    package var outcome: GrantLogOutcome
    package var reason: GrantRejection?
    package var detail: String?
    /// The name of the user in the log, in place of the row's: Apple's name for a code without one, or the pseudonym of a forgotten user.
    package var userID: String?
    /// Whether the row brought a secret, which must not stay readable in the file.
    package var hasSecret: Bool
    /// When the sign-in was, as Apple says. Nil if only the row says it.
    package var signedInAt: Timestamp?
    package var realUserStatus: Int?
}

package struct TokenToRevoke: Sendable {
    package var clientID: String
    package var key: RefreshToken.Key
    package var sealed: SealedToken
    package var standing: DueRevocation.Standing
    /// The team from which Apple last accepted the token; nil if Apple never has.
    package var verifiedTeam: String?

    init?(_ token: RefreshToken?, at clientID: String, standing: DueRevocation.Standing, verifiedTeam: String? = nil) {
        guard let token, let sealed = token.sealed else { return nil }
        self.clientID = clientID
        key = token.key
        (self.sealed, self.standing, self.verifiedTeam) = (sealed, standing, verifiedTeam)
    }
}
