// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// What people did and what siwatch was told of it, and so what has to stand in its logs.
///
/// The rules are those of the contract, put down a second time and in another way.
struct Ledger {
    /// The end of a person's consent.
    struct Ending: Hashable {
        var userID: String
        var time: Int64
    }

    private struct Event: Hashable {
        var type: String
        var userID: String
        var time: Int64
    }

    /// Rows that siwatch has to have logged, by outcome.
    private(set) var grants: [String: Int] = [:]
    private(set) var notifications: [String: Int] = [:]
    /// Rows that have to be in quarantine, by reason.
    private(set) var rejections: [String: Int] = [:]
    private(set) var refreshTokens: [String] = []
    /// When people's consent ended, whether or not siwatch was told.
    private(set) var endings: [String: [Int64]] = [:]

    private var known: Set<Ending> = []
    private var signInTimes: [String: [String: Set<Int64>]] = [:]
    private var events: Set<Event> = []
    private var newestEvent: [Event: Int64] = [:]
    private var peopleWithMailEvents: Set<String> = []

    /// Notes what has happened at Apple.
    mutating func note(_ events: some Sequence<AppleEvent>) {
        for event in events where event.isEnding && endings[event.userID]?.contains(event.time) != true {
            endings[event.userID, default: []].append(event.time)
        }
    }

    /// Notes rows of grant_queue, in the order of the table.
    mutating func tell(_ signIns: [SimulatedApple.SignIn]) {
        for signIn in signIns {
            let isNew = signInTimes[signIn.user_id, default: [:]][signIn.client_id, default: []].insert(signIn.granted_at).inserted
            grants[isNew ? "applied" : "duplicate", default: 0] += 1
            if isNew, let token = signIn.refresh_token { refreshTokens.append(token) }
        }
    }

    /// Notes rows of notification_queue, in the order of the table.
    mutating func tell(_ events: some Sequence<AppleEvent>) {
        note(events)
        for event in events { notifications[outcome(of: event), default: 0] += 1 }
    }

    mutating func tell(rejected count: Int, as reason: String) {
        rejections[reason, default: 0] += count
    }

    private mutating func outcome(of event: AppleEvent) -> String {
        guard events.insert(Event(type: event.type, userID: event.userID, time: event.time)).inserted else { return "duplicate" }
        if event.isEnding {
            known.insert(Ending(userID: event.userID, time: event.time))
        } else {
            peopleWithMailEvents.insert(event.userID)
        }
        // Both words on mail are about one thing, as are two revocations.
        let subject = Event(type: event.isEnding ? event.type : "mail", userID: event.userID, time: 0)
        let isOvertaken = newestEvent[subject].map { event.time <= $0 } ?? false
        newestEvent[subject] = max(event.time, newestEvent[subject] ?? 0)
        return isOvertaken || event.isEnding && isOutdated(event) ? "stale" : "applied"
    }

    /// Whether the person has signed in since, wherever they ever did.
    private func isOutdated(_ event: AppleEvent) -> Bool {
        signInTimes[event.userID]?.values.allSatisfy { $0.contains { $0 >= event.time } } ?? false
    }

    // MARK: Asking

    /// Whether siwatch was told that a person's consent ended at that time.
    func isKnown(_ ending: Ending) -> Bool { known.contains(ending) }

    func hasMailEvents(_ userID: String) -> Bool { peopleWithMailEvents.contains(userID) }

    func signIns(of userID: String, at clientID: String) -> Int { signInTimes[userID]?[clientID]?.count ?? 0 }
}
