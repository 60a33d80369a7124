// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import CredentialMonitor
import NIOConcurrencyHelpers

/// Notices when the HTTP door refuses what a client asks. A backend that swallows the answers tells nobody.
final class DoorRefusals: Sendable {
    private let clock: WallClock
    private let telemetry: Telemetry
    private let state = NIOLockedValueBox(State())

    private struct State {
        /// By client, whether each request was refused.
        var asked: [String: RecentCounts<Bool>] = [:]
        var last: [String: (words: String, at: Timestamp)] = [:]
        /// Whether any client has had what it asked for.
        var hasServed = false
        var told: Set<String> = []

        /// Fewer may come of what people type and devices send.
        private static let fewest = 5

        func refused(at now: Timestamp) -> [RefusedRequests] {
            asked.sorted { $0.key < $1.key }.compactMap { client, counts in
                let (refused, asked) = (counts.sum([true], at: now), counts.sum([true, false], at: now))
                guard refused >= Self.fewest, refused * 10 > asked, let (words, at) = last[client] else { return nil }
                return RefusedRequests(client: client, asked: asked, refused: refused, words: words, at: at, isDoorUseless: !hasServed)
            }
        }
    }

    init(clock: WallClock, telemetry: Telemetry) {
        (self.clock, self.telemetry) = (clock, telemetry)
    }

    func note(_ served: BackendAPI.Served) {
        // Strangers scan for paths, they post to Apple's, and a backend forwards what they post.
        let isForwarded = served.operation == "forwardNotification" && served.client != nil && served.status != 403
        let unnamed = served.refusal != nil && served.operation != nil ? "none" : nil
        let counted = isForwarded || served.status == 503 || served.client == "apple" ? nil : served.client ?? unnamed
        let now = clock.now
        state.withLockedValue { state in
            if served.client != nil, served.refusal == nil, served.status < 400 { state.hasServed = true }
            guard let client = counted else { return }
            // People's sign-ins fail as they do. If nothing at all succeeds, the backend may be at fault.
            let isPeoples = served.refusal?.hasPrefix("sign-in-rejected") == true && state.hasServed
            let refusal = isPeoples ? nil : served.refusal
            if let refusal { state.last[client] = (refusal, now) }
            state.asked[client, default: RecentCounts(in: .minutes(1), over: .minutes(10))].note(refusal != nil, at: now)
        }
    }

    /// The clients of which the door refuses more than one request in ten, by name.
    var all: [RefusedRequests] { state.withLockedValue { $0.refused(at: clock.now) } }

    /// Tells what begins and what ends.
    func look() {
        let (clients, refused, told) = state.withLockedValue { state in
            let refused = state.refused(at: clock.now)
            defer { state.told = Set(refused.map(\.client)) }
            return (state.asked.keys.sorted(), refused, state.told)
        }
        for client in clients {
            let own = refused.first { $0.client == client }
            telemetry.observe(refusalsOf: client, own.map { $0.isDoorUseless ? 2 : 1 } ?? 0)
            if (own != nil) != told.contains(client) { telemetry.refusals(of: client, own?.words) }
        }
    }
}

/// Requests of a client that the HTTP door refused within ten minutes.
struct RefusedRequests: Encodable, Equatable {
    /// `none` without a token that siwatch knows.
    var client: String
    var asked: Int
    var refused: Int
    /// The words of the last, and when it was.
    var words: String
    var at: Timestamp
    /// Whether no client has had what it asked for since siwatch started.
    var isDoorUseless: Bool
}
