// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Everything outside the process: time, Apple, the inserted rows, and the model of the required results.
///
/// Only one task at a time touches it. The lock satisfies the compiler.
final class SimulatedWorld: Sendable {
    let memory = KeptDecisions()

    struct State {
        /// The time on the host's clock.
        var now: Timestamp
        /// How far the host's clock is ahead of Apple's, which is right.
        var offset = Duration.zero
        /// The latest time that the host's clock has ever shown.
        var latestNow = Timestamp.earliest
        /// When the present process last got an answer, by Apple's clock. For a week it derives the true time from that.
        var heardAppleAt: Timestamp?
        /// Whether the host's clock has been set since.
        var clockWasSetSinceApple = false
        var apple: ScriptedApple
        var model: ReferenceModel
        var ledger: CallLedger
        /// Users with a wrongly dated sign-in. The consequences are no bug.
        var misdated: Set<String> = []
        /// Users with a sign-in dated ahead. It is newer than what has ended it, and the end of an older token says nothing of it.
        var datedAhead: Set<String> = []
        /// The credentials with a token that siwatch first heard of by a nightly job, dated by the job.
        var toldByJob: Set<CredentialID> = []
        /// The end of an import whose rows stand before all others. The simulation leaves its rows out.
        var importEndsAt = Timestamp.earliest
        var knownKeys: Set<String> = ["key1"]
        /// What stands in the key file.
        var sealingKeys = [PlainSealer.onlyKey]
        /// What the process holds, and what another replica holds as far as the process has heard.
        var ring = PlainRing([PlainSealer.onlyKey])
        /// Whether a portion of the tables was sealed anew, and others follow.
        var isResealing = false
        /// Calls of a port until the process dies; nil while it lives.
        var portCallsToCrash: Int?
        /// Whether the call at which the process dies takes effect.
        var diesAfterEffect = false
        /// Whether the process died during a piece of work. The work runs on to its end, without effect.
        var hasDied = false
        /// The trouble of the next calls of the store; nil for a call that works.
        var storeTrouble: [StoreTrouble?] = []
        /// Results of the process that the simulation has not taken yet.
        var arrived: [Arrival] = []
        var awaitsArrival: CheckedContinuation<Arrival, Never>?
        /// What somebody else than siwatch has written. siwatch takes nothing else for planted.
        var planted: Set<DecisionRow.Kind> = []
        /// The apps in whose row stands an older count of requests to revoke that siwatch has not seen yet.
        var replayed: Set<String> = []
        var violation: Violation?
        var tally: [Situation: Int] = [:]
        var trace = Trace()
    }

    /// A request on its way to Apple.
    enum Request: Sendable {
        case refresh(String, CredentialID, CheckedContinuation<RefreshResponse, Never>)
        case exchange(String, redirectURI: String?, clientID: String, CheckedContinuation<ExchangeResponse, Never>)
        case revoke(String, clientID: String, CheckedContinuation<RevokeResponse, Never>)
    }

    /// A result of a piece of work: a question, another question, and finally a settlement.
    enum Arrival: Sendable {
        case request(Request)
        case resolved([Settlement])
    }

    private let state: NIOLockedValueBox<State>

    init(_ state: State) { self.state = NIOLockedValueBox(state) }
    func with<Result>(_ body: (inout State) throws -> Result) rethrows -> Result { try state.withLockedValue(body) }
    var now: Timestamp { with { $0.now } }
    func note(_ line: String, counting situation: Situation? = nil) { with { $0.note(line, counting: situation) } }
    func report(_ violation: Violation?) { with { $0.report(violation) } }

    /// On this clock time passes only by sleeping. Only one task is awake.
    var clock: WallClock { WallClock(now: { self.now }, sleep: { deadline, _ in self.with { $0.now = max($0.now, deadline) } }) }

    func nextArrival() async -> Arrival {
        await withCheckedContinuation { continuation in
            let arrival: Arrival? = with { state in
                if state.arrived.isEmpty { state.awaitsArrival = continuation }
                return state.arrived.isEmpty ? nil : state.arrived.removeFirst()
            }
            if let arrival { continuation.resume(returning: arrival) }
        }
    }

    func arrive(_ arrival: Arrival) {
        let waiter: CheckedContinuation<Arrival, Never>? = with { state in
            defer { state.awaitsArrival = nil }
            if state.awaitsArrival == nil { state.arrived.append(arrival) }
            return state.awaitsArrival
        }
        waiter?.resume(returning: arrival)
    }
}

extension SimulatedWorld.State {
    var truth: Timestamp { now.advanced(by: .zero - offset) }
    var isImporting: Bool { truth < importEndsAt }

    /// How far the host's clock is ahead of Apple's, as far as the process knows.
    var knownOffset: Duration {
        guard let heardAppleAt, heardAppleAt.duration(to: truth) < .days(7) else { return .zero }
        // After a step the process goes by the earlier of the two clocks.
        return clockWasSetSinceApple ? max(offset, .zero) : offset
    }

    /// A process that has not heard Apple goes by the host's clock. If that is ahead, it takes sign-ins early, and can promise nothing.
    mutating func noteTakenAhead(_ work: [ClaimedGrant]) {
        guard heardAppleAt == nil else { return }
        for grant in work where grant.grantedAt > truth.advanced(by: .seconds(4)) {
            if let user = grant.content?.credential.userID { misdated.insert(user) }
        }
    }

    /// An operator or NTP sets the host's clock.
    mutating func setClock(ahead: Duration) {
        latestNow = max(latestNow, now)
        let step = ahead - offset
        now = now.advanced(by: step)
        offset = ahead
        if step > .seconds(60) || step < .seconds(-60) { clockWasSetSinceApple = true }
        ledger.clockWasSet(ahead: step > .zero, at: truth)
        note("the clock is set by \(step)", counting: .clockStep)
    }

    /// Keeps the first violation, because the next ones may follow from it.
    mutating func report(_ found: Violation?) {
        guard violation == nil, let found else { return }
        violation = found
        note("\(found)")
    }

    mutating func note(_ line: String, counting situation: Situation? = nil) {
        if let situation { count(situation) }
        trace.append("\(now.milliseconds - SimulatedTime.start.milliseconds) \(line)")
    }

    mutating func count(_ situation: Situation) { tally[situation, default: 0] += 1 }
}

enum SimulatedTime {
    static let start = Timestamp(milliseconds: 1_750_000_000_000)
}

/// The last lines of the history, and a digest of all of them.
struct Trace {
    private static let longest = 60
    private(set) var lines: [String] = []
    private var hash = StableHash()

    var digest: UInt64 { hash.value }

    mutating func append(_ line: String) {
        hash.append(line)
        lines.append(line)
        if lines.count > 2 * Self.longest { lines.removeFirst(Self.longest) }
    }

    var tail: ArraySlice<String> { lines.suffix(Self.longest) }
}

/// Calls of the store. The process may die in them, and the store may fail.
extension SimulatedWorld {
    /// How the store fails. The commit has happened with `unknownAfter` only.
    enum StoreTrouble: Sendable {
        case busy, full, unknownBefore, unknownAfter

        /// The error that the process gets.
        var error: StoreError {
            switch self {
            case .busy: .busy
            case .full: .full()
            case .unknownBefore, .unknownAfter: .outcomeUnknown(StoreError.simulated)
            }
        }
    }

    /// A call of the store. The process may die before or after it.
    ///
    /// - Parameter effect: the model's update, whether or not the process gets the result.
    func call<Value: Sendable>(_ body: () async throws -> Value, effect: (inout State, Value) -> Void = { _, _ in }) async throws -> Value {
        let dies = with { $0.mustCrash() }
        if dies, !with({ $0.diesAfterEffect }) { throw Crash() }
        let value = try await body()
        with { effect(&$0, value) }
        if dies {
            with { $0.count(.crashAfterCommit) }
            throw Crash()
        }
        return value
    }

    /// A read for a decision. It may fail, and the process may die before or after it.
    func read<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        if let trouble = with({ $0.nextTrouble() }) {
            with { $0.count(.readFailed) }
            throw trouble.error
        }
        return try await call(body)
    }
}

extension SimulatedWorld.State {
    mutating func nextTrouble() -> SimulatedWorld.StoreTrouble? { storeTrouble.isEmpty ? nil : storeTrouble.removeFirst() }

    /// Whether the process dies at this call, by the plan.
    mutating func mustCrash() -> Bool {
        guard let left = portCallsToCrash else { return false }
        portCallsToCrash = left - 1
        return left <= 0
    }
}

extension StoreError {
    fileprivate static let simulated = "simulated"

    /// Whether the simulation made it up. Any other error is a bug and ends the run.
    var isSimulated: Bool {
        switch self {
        case .busy, .full: true
        case .outcomeUnknown(let text): text == Self.simulated
        case .retry, .unavailable, .refused, .damaged, .readOnly: false
        }
    }
}

struct Crash: Error {}
