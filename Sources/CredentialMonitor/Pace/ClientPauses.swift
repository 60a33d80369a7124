// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// The pauses of clients that Apple blames. Each pause is longer than the last, and ends with a single question.
package final class ClientPauses: Sendable {
    private struct Blame {
        /// Answers in a row that blamed this client, each of which began a pause.
        var count = 0
        var pause: Pause?
        /// Whether Apple blamed this client itself. Otherwise it waits with a blamed client, while nothing tells the two apart.
        var isOwn = true
        /// Whether Apple had accepted the client in this process before. Its first refusal is mostly a hiccup of Apple's.
        var wasAccepted = false
    }

    private struct State {
        var blames: [String: Blame] = [:]
        /// Clients that Apple has accepted in this process and has not blamed since.
        var accepted: Set<String> = []
    }

    private let state = NIOLockedValueBox(State())
    private let longest: Duration
    /// The first pause of a client that Apple has accepted before. People wait at a sign-in page.
    private static let hiccup = Duration.seconds(1)

    /// - Parameter longest: limits each pause, however often Apple blames the client.
    init(longest: Duration) {
        self.longest = longest
    }

    /// Whether Apple has blamed any client in this process and has not accepted it since.
    package var isAnyBlamed: Bool { state.withLockedValue { $0.blames.values.contains { $0.count > 0 } } }

    /// How many questions may be claimed for each blamed client: none during its pause, and one after it. Others have no limit.
    package func quotas(at now: Timestamp) -> [String: Int] {
        state.withLockedValue { $0.blames.mapValues { $0.pause?.holds(at: now) == true ? 0 : 1 } }
    }

    package func holds(_ client: String, at now: Timestamp) -> Bool {
        state.withLockedValue { $0.blames[client]?.pause?.holds(at: now) ?? false }
    }

    /// Notes an answer that blames a client's configuration. Requests from before the pause start no new pause, because a hiccup strikes
    /// all requests in flight at once.
    ///
    /// - Parameters:
    ///   - others: clients that wait with this one, because no client of the app has had a 200.
    ///   - isForeign: whether another lane asked, whose answer lengthens no pause here: codes are tried every half minute, so checks would
    ///     soon wait for hours.
    /// - Returns: the length of the new pause. Nil if the client was paused already.
    package func blame(
        _ client: String,
        and others: Set<String> = [],
        isForeign: Bool = false,
        askedAt: Timestamp,
        at now: Timestamp
    ) -> Duration? {
        state.withLockedValue { state in
            var blame = state.blames[client] ?? Blame()
            blame.isOwn = true
            if state.accepted.remove(client) != nil { blame.wasAccepted = true }
            defer { state.blames[client] = blame }
            if let pause = blame.pause, pause.holds(at: now), isForeign || askedAt < pause.start {
                blame.count = max(blame.count, 1)
                return nil
            }
            blame.count += 1
            let pause = Pause(start: now, length: length(after: blame))
            blame.pause = pause
            // A client that is being tried will get its own answer.
            for other in others where other != client && state.blames[other] == nil {
                state.blames[other] = Blame(pause: pause, isOwn: false)
            }
            return pause.length
        }
    }

    /// Tries clients by single questions, because Apple blamed them before this process started. A client that Apple has accepted since is
    /// left out: the breaker that names it may not know yet.
    package func suspect(_ clients: Set<String>) {
        guard !clients.isEmpty else { return }
        state.withLockedValue { state in
            for client in clients where state.blames[client] == nil && !state.accepted.contains(client) { state.blames[client] = Blame() }
        }
    }

    /// Whether a question about a client may be sent now. Work claimed before a pause is not sent in it; after the pause one question is.
    package func maySend(of client: String, at now: Timestamp) -> Bool {
        state.withLockedValue { state in
            guard let blame = state.blames[client] else { return true }
            guard blame.pause?.holds(at: now) != true else { return false }
            state.blames[client]?.pause = Pause(start: now, length: length(after: blame))
            return true
        }
    }

    /// Ends the blame of a client that Apple has accepted. Clients that only waited with others go on too. Says whether it was paused.
    package func accept(_ client: String) -> Bool {
        state.withLockedValue { state in
            state.accepted.insert(client)
            let blame = state.blames.removeValue(forKey: client)
            state.blames = state.blames.filter(\.value.isOwn)
            return blame.map { $0.count > 0 || !$0.isOwn } ?? false
        }
    }

    func forget() { state.withLockedValue { $0 = State() } }

    private func length(after blame: Blame) -> Duration {
        let failures = blame.wasAccepted ? blame.count - 1 : blame.count
        return min(blame.wasAccepted && failures < 1 ? Self.hiccup : RefreshPolicy.pause(afterFailures: failures), longest)
    }
}

/// A time in which Apple is not asked.
struct Pause: Sendable {
    var start: Timestamp
    var length: Duration

    var end: Timestamp { start.advanced(by: length) }

    /// False for a start in the future: the clock was set back, and nothing must stall.
    func holds(at now: Timestamp) -> Bool { start <= now && now < end }
}
