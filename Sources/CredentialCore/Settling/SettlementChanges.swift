// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What a folded batch comes to: all that a store writes, in one transaction.
package struct SettlementChanges: Sendable {
    /// One for each settlement, in the same order. Only the log tells a duplicate.
    package var results: [Settled] = []
    /// What becomes of queue rows, in order.
    package var queueRows: [QueueRowChange] = []
    /// Those touched, in the order of their names, so that neighbouring rows are written together.
    package var users: [UserRecord] = []
    package var announcements: [Announcement] = []
    /// By how much each number of credentials changes.
    package var counts: [StateOfApp: Int] = [:]
    package var tallies: [String: UserRecord.Tally] = [:]
    /// Those that changed, by app.
    package var breakers: [String: RejectionBreaker] = [:]
    /// The breakers of all apps that the batch concerns, changed or not: where the answer to an earlier commit was lost, nobody knows of its
    /// changes.
    package var knownBreakers: [String: RejectionBreaker] = [:]
    /// The apps whose breaker opened, closed again or not: none of their rejections waits any longer.
    package var openedApps: Set<String> = []
    package var admitted: [AdmittedRejection] = []
    /// The clients of which Apple accepted a token or a code, and when it was asked, by its clock.
    package var validAt: [String: Timestamp] = [:]
    /// The same, of tokens that it had accepted before.
    package var provedAt: [String: Timestamp] = [:]
    /// The clients that Apple refuses from now on, or otherwise than before; nil for one that it refuses no longer.
    package var refusals: [String: ClientRefusal?] = [:]
    /// Checks that Apple answered, and those that it did not.
    package var checks = (answered: 0, failed: 0)
    /// The apps of which a new token came, to ask about.
    package var replenished: Set<String> = []

    package struct StateOfApp: Sendable, Hashable {
        package var app: String
        package var state: CredentialState
    }
}

/// What becomes of a claimed row of a queue.
package enum QueueRowChange: Sendable {
    /// - Parameter settlement: its place in the batch.
    case logNotification(ClaimedNotification, VerifiedNotification, app: String, NotificationLogOutcome, settlement: Int)
    case quarantine(ClaimedNotification, RejectionReason, detail: String)
    case postponeNotification(Int64, until: Timestamp)
    case logGrant(GrantLogEntry)
    /// - Parameter waitsSince: since when it has waited for its client or its time, as far as a trusted clock has told.
    case postponeGrant(Int64, until: Timestamp, waitsSince: Timestamp?)
    /// - Parameters:
    ///   - failures: times that it was sent and the road failed.
    ///   - isAnswerLost: whether Apple may have taken it.
    ///   - detail: Apple's last word about it, or why there was none.
    case postponeCode(Int64, until: Timestamp, failures: Int, isAnswerLost: Bool, detail: String?)
    case revocation(RevocationChange)
}

/// What becomes of a request to revoke, and of its tokens.
package enum RevocationChange: Sendable {
    /// It is split into one revocation for each token.
    case open(ClaimedRevocationRequest, CredentialID, [TokenToRevoke])
    case postpone(ClaimedRevocationRequest, until: Timestamp)
    /// It came to no token.
    case close(ClaimedRevocationRequest, RevocationOutcome, RevocationRejection?)
    case proceed(DueRevocation, RevocationProof, due: Timestamp)
    /// The receipt is written; with the last of its tokens the request leaves the queue.
    case finish(DueRevocation, RevocationProof, RevocationOutcome, RevocationRejection?)
}

/// How a row of `grant_queue` leaves it.
package struct GrantLogEntry: Sendable {
    package var id: Int64
    package var outcome: GrantLogOutcome
    package var reason: GrantRejection?
    /// A few words about the reason.
    package var detail: String?
    /// Whose sign-in it is, where only Apple has told.
    package var userID: String?
    /// Whether the row brought what must not stay readable in the file.
    package var hasSecret: Bool

    package init(
        id: Int64,
        _ outcome: GrantLogOutcome,
        _ reason: GrantRejection? = nil,
        detail: String? = nil,
        userID: String? = nil,
        hasSecret: Bool
    ) {
        self.id = id
        self.outcome = outcome
        self.reason = reason
        self.detail = detail
        self.userID = userID
        self.hasSecret = hasSecret
    }
}

/// A token that is held, and whose.
package struct TokenToRevoke: Sendable {
    package var clientID: String
    package var key: RefreshToken.Key
    package var sealed: SealedToken
    package var standing: DueRevocation.Standing
    /// The team from which Apple had accepted it last; nil where it never had.
    package var verifiedTeam: String?

    /// Nil where there is no token, or it has been erased.
    package init?(_ token: RefreshToken?, at clientID: String, standing: DueRevocation.Standing, verifiedTeam: String? = nil) {
        guard let token, let sealed = token.sealed else { return nil }
        self.clientID = clientID
        key = token.key
        self.sealed = sealed
        self.standing = standing
        self.verifiedTeam = verifiedTeam
    }
}
