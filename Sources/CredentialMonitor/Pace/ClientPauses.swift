// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The pauses of an app's clients that Apple blames: each ever longer, with a single question at its end.
struct ClientPauses: Sendable {
    private struct Blame {
        /// Answers in a row that blamed it, each of which began a pause.
        var count = 0
        var pause: Pause?
        /// Whether Apple blamed this client. Another one waits with it while nothing tells them apart.
        var isOwn = true
    }

    private var blames: [String: Blame] = [:]
    /// Clients that Apple has accepted in this process, and not blamed since.
    private var accepted: Set<String> = []
    let longest: Duration

    /// - Parameter longest: however often the blame comes.
    init(longest: Duration) {
        self.longest = longest
    }

    /// Whether Apple has blamed a client in this process, and not accepted it since.
    var isAnyBlamed: Bool { blames.values.contains { $0.count > 0 } }

    /// How many questions may be claimed of each client that is blamed: none in its pause, and one after it. Of all others any number.
    func quotas(at now: Timestamp) -> [String: Int] {
        blames.mapValues { $0.pause?.holds(at: now) == true ? 0 : 1 }
    }

    func holds(_ client: String, at now: Timestamp) -> Bool {
        blames[client]?.pause?.holds(at: now) ?? false
    }

    /// Notes an answer that blames a client's configuration. What was asked before the pause began counts with it: a hiccup that strikes
    /// all requests in flight is one.
    ///
    /// - Parameters:
    ///   - others: clients of the app that wait with it, because none of the app has had a 200.
    ///   - isForeign: whether a lane asked that has pauses of its own. Its questions do not lengthen a pause of this one: codes are tried
    ///     each half minute, and checks would soon wait for hours.
    /// - Returns: how long the client is paused now; nil where it was already.
    mutating func blame(
        _ client: String,
        and others: Set<String>,
        isForeign: Bool,
        askedAt: Timestamp,
        at now: Timestamp
    ) -> Duration? {
        accepted.remove(client)
        if let blame = blames[client], let pause = blame.pause, pause.holds(at: now), isForeign || askedAt < pause.start {
            blames[client] = Blame(count: max(blame.count, 1), pause: pause)
            return nil
        }
        let count = (blames[client]?.count ?? 0) + 1
        let pause = Pause(start: now, length: length(afterFailures: count))
        blames[client] = Blame(count: count, pause: pause)
        // One that is being tried meanwhile will say for itself.
        for other in others where other != client && blames[other] == nil { blames[other] = Blame(pause: pause, isOwn: false) }
        return pause.length
    }

    /// Has a client tried by single questions that was blamed before this process started. That Apple has accepted it since, the breaker
    /// that says so may not have heard yet.
    mutating func suspect(_ client: String) {
        if blames[client] == nil, !accepted.contains(client) { blames[client] = Blame() }
    }

    /// Whether a question of a client may be sent now. The one that tries a blamed client begins its next pause, so that it is the only
    /// one.
    mutating func send(of client: String, at now: Timestamp) -> Bool {
        guard let blame = blames[client] else { return true }
        guard blame.pause?.holds(at: now) != true else { return false }
        let pause = Pause(start: now, length: length(afterFailures: blame.count))
        blames[client]?.pause = pause
        return true
    }

    /// Apple has accepted a client: its blame ends, and those that waited with others go on.
    ///
    /// - Returns: whether it was paused in this process.
    mutating func accept(_ client: String) -> Bool {
        accepted.insert(client)
        let wasPaused = blames[client].map { $0.count > 0 || !$0.isOwn } ?? false
        blames[client] = nil
        blames = blames.filter(\.value.isOwn)
        return wasPaused
    }

    private func length(afterFailures failures: Int) -> Duration { min(RefreshPolicy.pause(afterFailures: failures), longest) }
}
