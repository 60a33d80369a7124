// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BackendAPI
import CredentialCore
import CredentialMonitor
import NIOConcurrencyHelpers

/// Notices when the HTTP door refuses what a client asks, or answers what was hardly meant. A backend that swallows the answers tells
/// nobody.
final class DoorRefusals: Sendable {
    private let clock: WallClock
    private let telemetry: Telemetry
    private let state = NIOLockedValueBox(State())

    /// Requests of a client for one thing. Many good ones for another do not hide that all of these err.
    private struct Kind: Hashable, Comparable {
        var client: String
        /// As in openapi.json; nil for paths that are none.
        var operation: String?

        static func < (one: Kind, other: Kind) -> Bool {
            (one.client, one.operation ?? "") < (other.client, other.operation ?? "")
        }
    }

    private enum Answer: Hashable {
        case good, refused
        case doubtful(BackendAPI.Doubt)
    }

    private struct State {
        var asked: [Kind: RecentCounts<Answer>] = [:]
        var last: [Kind: (words: String, at: Timestamp)] = [:]
        /// Whether any client has had what it asked for.
        var hasServed = false

        /// Fewer may come of what people type and devices send.
        private static let fewest = 5

        func refused(at now: Timestamp) -> [(kind: Kind, requests: RefusedRequests)] {
            asked.sorted { $0.key < $1.key }.compactMap { kind, counts in
                let (refused, good) = (counts.sum([.refused], at: now), counts.sum([.good], at: now))
                let doubts = BackendAPI.Doubt.allCases.map { ($0, counts.sum([.doubtful($0)], at: now)) }
                let asked = doubts.reduce(refused + good) { $0 + $1.1 }
                var requests = RefusedRequests(client: kind.client, operation: kind.operation, asked: asked, isDoorUseless: !hasServed)
                if refused >= Self.fewest, refused * 10 > asked, let (words, at) = last[kind] {
                    (requests.refused, requests.words, requests.at) = (refused, words, at)
                    return (kind, requests)
                }
                // Some requests are meant so. If nearly all are alike, the backend errs.
                guard let (doubt, count) = doubts.first(where: { $0.1 >= Self.fewest * 2 && $0.1 * 10 >= asked * 9 }) else { return nil }
                (requests.refused, requests.words, requests.isAnswered, requests.isDoorUseless) = (count, doubt.words, true, false)
                return (kind, requests)
            }
        }
    }

    init(clock: WallClock, telemetry: Telemetry) {
        (self.clock, self.telemetry) = (clock, telemetry)
    }

    func note(_ served: BackendAPI.Served) {
        // Strangers scan for paths, they post to Apple's, and a backend forwards what they post.
        let isForwarded = served.operation == "forwardNotification" && served.client != nil && served.status != 403
        let unnamed = served.refusal != nil && served.operation != nil ? Telemetry.noClient : nil
        let counted = isForwarded || served.status == 503 || served.client == "apple" ? nil : served.client ?? unnamed
        let now = clock.now
        state.withLockedValue { state in
            if served.client != nil, served.refusal == nil, served.status < 400 { state.hasServed = true }
            guard let client = counted else { return }
            let kind = Kind(client: client, operation: served.operation)
            // People's sign-ins fail as they do. If nothing at all succeeds, the backend may be at fault.
            let isPeoples = served.refusal?.hasPrefix("sign-in-rejected") == true && state.hasServed
            let refusal = isPeoples ? nil : served.refusal
            if let refusal { state.last[kind] = (refusal, now) }
            let answer = refusal.map { _ in Answer.refused } ?? served.doubt.map(Answer.doubtful) ?? .good
            state.asked[kind, default: RecentCounts(in: .minutes(1), over: .minutes(10))].note(answer, at: now)
        }
    }

    /// The requests of which the door refuses more than one in ten, or doubts nine, by client and operation.
    var all: [RefusedRequests] { state.withLockedValue { $0.refused(at: clock.now).map(\.requests) } }

    /// Tells what begins and what ends.
    func look() {
        let (kinds, refused) = state.withLockedValue { state in
            (state.asked.keys.sorted(), Dictionary(uniqueKeysWithValues: state.refused(at: clock.now).map { ($0.kind, $0.requests) }))
        }
        for client in Set(kinds.map(\.client)) {
            let own = refused.values.filter { $0.client == client && !$0.isAnswered }
            telemetry.gauge(.httpRefusals, own.isEmpty ? 0 : own.contains(where: \.isDoorUseless) ? 2 : 1, ["client": client])
        }
        for kind in kinds { telemetry.refusals(of: kind.client, kind.operation, refused[kind]?.words) }
    }
}

/// Requests of a client that the HTTP door refused within ten minutes, or that were hardly meant.
struct RefusedRequests: Encodable, Equatable {
    /// `Telemetry.noClient` without a token that siwatch knows.
    var client: String
    /// As in openapi.json; nil for paths that are none.
    var operation: String?
    var asked: Int
    var refused = 0
    /// The words of the last, or what is doubtful.
    var words = ""
    /// When the last was refused.
    var at: Timestamp?
    /// Whether the requests were answered, and hardly meant.
    var isAnswered = false
    /// Whether no client has had what it asked for since siwatch started.
    var isDoorUseless: Bool
}

/// Notices when requests at the HTTP door find no database. The door has connections of its own, so nothing else may notice.
final class DoorWatch: Sendable {
    private let now: @Sendable () -> ContinuousClock.Instant
    private let outages = NIOLockedValueBox<[BackendAPI.DatabaseUse: Outage]>([:])

    private struct Outage {
        var since: ContinuousClock.Instant
        var lastFailure: ContinuousClock.Instant
        var cause: String

        /// A lock may take a moment, and one request may fail when a server restarts.
        var isTrouble: Bool { lastFailure - since >= .seconds(5) }
    }

    enum News {
        case failed, recovered
    }

    /// How long a failure counts if nobody asks again.
    private static let memory = Duration.minutes(1)

    init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.now = now
    }

    /// - Parameter failure: nil if the database answered.
    /// - Returns: what begins or ends with it.
    func note(_ use: BackendAPI.DatabaseUse, failure: String?) -> News? {
        let now = now()
        return outages.withLockedValue { outages in
            guard let failure else { return outages.removeValue(forKey: use)?.isTrouble == true ? .recovered : nil }
            let known = outages[use].flatMap { $0.lastFailure.advanced(by: Self.memory) > now ? $0 : nil }
            let outage = Outage(since: known?.since ?? now, lastFailure: now, cause: failure)
            outages[use] = outage
            return outage.isTrouble && known?.isTrouble != true ? .failed : nil
        }
    }

    /// Nil if all that was asked lately was answered.
    var trouble: String? {
        let now = now()
        let troubles = outages.withLockedValue { $0.filter { $1.isTrouble && $1.lastFailure.advanced(by: Self.memory) > now } }
        guard let last = troubles.max(by: { $0.value.lastFailure < $1.value.lastFailure }) else { return nil }
        return "the HTTP door finds no database for \(last.key): \(last.value.cause)"
    }
}
