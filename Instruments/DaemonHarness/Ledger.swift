// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import AppleSimulatorKit

/// The people's actions and the reports to siwatch, and the table and log rows that must follow.
///
/// It repeats the rules of the contract in code of its own.
package struct Ledger: Sendable {
    private struct Event: Hashable {
        var type: String
        var userID: String
        var time: Moment
    }

    /// The expected log rows by outcome, and the expected quarantined rows by reason.
    private(set) var grants: [String: Int] = [:]
    private(set) var notifications: [String: Int] = [:]
    private(set) var rejections: [String: Int] = [:]
    package private(set) var refreshTokens: [String] = []
    package private(set) var codes: [String] = []
    private(set) var leaving: Set<String> = []
    /// When each user's consent ended, reported to siwatch or not, oldest first.
    private(set) var endings: [String: [Moment]] = [:]

    /// The times of sign-ins by code. Such a sign-in counts from the exchange, which only siwatch can date.
    private var codeTimes: [String: [String: Set<Moment>]] = [:]
    private var knownEndings: [String: Set<Moment>] = [:]
    private var signInTimes: [String: [String: Set<Moment>]] = [:]
    private var events: Set<Event> = []
    private var newestEvent: [Event: Moment] = [:]
    private var usersWithMailEvents: Set<String> = []

    mutating func note(_ notifications: some Collection<SignedNotification>) {
        for event in notifications where event.isEnding && endings[event.userID]?.contains(event.eventTime) != true {
            endings[event.userID, default: []].append(event.eventTime)
        }
    }

    package mutating func tell(_ signIns: [SignIn]) {
        for signIn in signIns {
            let isNew = signInTimes[signIn.userID, default: [:]][signIn.clientID, default: []].insert(signIn.grantedAt).inserted
            grants[isNew ? "applied" : "duplicate", default: 0] += 1
            if isNew, let token = signIn.refreshToken { refreshTokens.append(token) }
        }
    }

    /// Notes rows of grant_queue with codes, in the order of the table.
    package mutating func tell(codesOf signIns: [SignIn]) {
        for signIn in signIns {
            let isNew = signInTimes[signIn.userID, default: [:]][signIn.clientID, default: []].insert(signIn.grantedAt).inserted
            codeTimes[signIn.userID, default: [:]][signIn.clientID, default: []].insert(signIn.grantedAt)
            grants[isNew ? "applied" : "rejected", default: 0] += 1
            if isNew, let code = signIn.code { codes.append(code) }
        }
    }

    package mutating func tell(leaving users: [String], at moment: Moment) {
        leaving.formUnion(users)
        for user in users { endings[user, default: []].append(moment) }
    }

    package mutating func tell(_ notifications: some Collection<SignedNotification>) {
        note(notifications)
        for event in notifications { self.notifications[outcome(of: event), default: 0] += 1 }
    }

    package mutating func tell(rejected count: Int, as reason: String) { rejections[reason, default: 0] += count }

    private mutating func outcome(of event: SignedNotification) -> String {
        guard events.insert(Event(type: event.type, userID: event.userID, time: event.eventTime)).inserted else { return "duplicate" }
        if event.isEnding {
            knownEndings[event.userID, default: []].insert(event.eventTime)
        } else {
            usersWithMailEvents.insert(event.userID)
        }
        // Both mail events have one subject, as have two revocations.
        let subject = Event(type: event.isEnding ? event.type : "mail", userID: event.userID, time: Moment(milliseconds: 0))
        let isOvertaken = newestEvent[subject].map { event.eventTime <= $0 } ?? false
        newestEvent[subject] = max(event.eventTime, newestEvent[subject] ?? event.eventTime)
        return isOvertaken || event.isEnding && isOutdated(event) ? "stale" : "applied"
    }

    /// Whether the user has signed in since, at every client of an earlier sign-in.
    private func isOutdated(_ event: SignedNotification) -> Bool {
        signInTimes[event.userID]?.values.allSatisfy { $0.contains { $0 >= event.eventTime } } ?? false
    }

    // MARK: Expectations

    /// The row that siwatch must show for a credential. `changedAt` is nil if only siwatch can know the moment.
    ///
    /// An ending without a notification shows as a rejected token, from the moment of the check that found it.
    func expected(_ truth: CredentialTruth, of userID: String) -> (state: String, reason: String, changedAt: Int64?) {
        let isOfCode = codeTimes[userID]?[truth.clientID]?.contains(truth.changedAt) ?? false
        if truth.state == .authorized && isOfCode || truth.reason == .revokedByApp && leaving.contains(userID) {
            return (truth.state.rawValue, truth.reason.rawValue, nil)
        }
        return truth.state == .authorized || isKnown(truth.changedAt, of: userID)
            ? (truth.state.rawValue, truth.reason.rawValue, truth.changedAt.milliseconds) : ("revoked", "token_rejected", nil)
    }

    /// The expected reason in `user_state`: authorized if any client is, else the latest.
    func expectedReason(_ user: UserTruth) -> String {
        let authorized = user.credentials.first { $0.state == .authorized }
        let latest = authorized ?? user.credentials.max { $0.changedAt < $1.changedAt }
        return latest.map { expected($0, of: user.userID).reason } ?? "never_granted"
    }

    /// The expected mail state: none before the first event, and none for a deleted account.
    func expectedForwarding(_ user: UserTruth) -> String? {
        user.isAccountDeleted || !usersWithMailEvents.contains(user.userID) ? nil : user.emailForwarding
    }

    /// Whether siwatch was told that the user's consent ended at that time.
    func isKnown(_ ending: Moment, of userID: String) -> Bool { knownEndings[userID]?.contains(ending) ?? false }

    /// Whether the user's consent ended at that time, whether or not siwatch was told.
    package func isEnding(_ moment: Moment, of userID: String) -> Bool { endings[userID]?.contains(moment) ?? false }
    func isByCode(_ userID: String, at clientID: String) -> Bool { codeTimes[userID]?[clientID] != nil }
    func signIns(of userID: String, at clientID: String) -> Int { signInTimes[userID]?[clientID]?.count ?? 0 }
}

extension SignedNotification {
    /// Whether it kills every token of the user.
    fileprivate var isEnding: Bool { type == "consent-revoked" || type.hasPrefix("account-delete") }
}
