// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Everything outside the process: time, Apple, what was inserted, and the model of what must follow.
///
/// One task at a time touches it. The lock is for the compiler.
final class SimulatedWorld: Sendable {
    struct State {
        /// What the clock of the host says.
        var now: Timestamp
        /// How far it is ahead of Apple's, which is right.
        var offset = Duration.zero
        /// The latest that it has ever said.
        var latestNow = Timestamp.earliest
        /// When the process at work last had an answer, by Apple's clock: for a week it knows by that what the time is.
        var heardAppleAt: Timestamp?
        var apple: ScriptedApple
        var model: ReferenceModel
        var ledger: CallLedger
        /// Users of whom a sign-in was told with a wrong date: what follows from that is nobody's fault here.
        var misdated: Set<String> = []
        /// Signing keys that the process has fetched.
        var knownKeys: Set<String> = ["key1"]
        /// Calls of a port until the process dies; nil for long.
        var portCallsToCrash: Int?
        /// Whether the call at which the process dies takes effect.
        var diesAfterEffect = false
        /// Whether the process died in the middle of a piece of work, which goes on until it ends and counts for nothing.
        var hasDied = false
        /// What the next calls of the store meet; nil where one works.
        var storeTrouble: [StoreTrouble?] = []
        /// What has come out of the process and nobody has taken yet.
        var arrived: [Arrival] = []
        var awaitsArrival: CheckedContinuation<Arrival, Never>?
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

    /// What comes of a piece of work that the process has taken up: a question, and another, and in the end what is to be settled.
    enum Arrival: Sendable {
        case request(Request)
        case resolved([Settlement])
    }

    private let state: NIOLockedValueBox<State>

    init(_ state: State) {
        self.state = NIOLockedValueBox(state)
    }

    func with<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
        try state.withLockedValue(body)
    }

    var now: Timestamp { with { $0.now } }

    /// Sleeping is how time passes for the only one who is awake.
    var clock: WallClock {
        WallClock(now: { self.now }, sleep: { deadline, _ in self.with { $0.now = max($0.now, deadline) } })
    }

    /// Waits for what comes out of the process next.
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
    /// What Apple's clock says.
    var truth: Timestamp { now.advanced(by: .zero - offset) }

    /// Somebody sets the host's clock.
    mutating func setClock(ahead: Duration) {
        latestNow = max(latestNow, now)
        let step = ahead - offset
        now = now.advanced(by: step)
        offset = ahead
        ledger.clockWasSet(ahead: step > .zero, at: truth)
        count(.clockStep)
        note("the clock is set by \(step)")
    }

    /// Keeps the first violation: what follows it may follow from it.
    mutating func report(_ found: Violation?) {
        guard violation == nil, let found else { return }
        violation = found
        note("\(found)")
    }

    mutating func note(_ line: @autoclosure () -> String) {
        trace.append("\(now.milliseconds - SimulatedTime.start.milliseconds) \(line())")
    }

    mutating func count(_ situation: Situation) {
        tally[situation, default: 0] += 1
    }
}

/// When simulations begin.
enum SimulatedTime {
    static let start = Timestamp(milliseconds: 1_750_000_000_000)
    /// How far a grant may be dated ahead of the host's clock.
    static let skew = Duration.seconds(300)
}

/// What a run should meet now and then, because what is never tried is never proved.
package enum Situation: String, Sendable, CaseIterable, Hashable {
    case crash, crashWithRequestsOut, crashAfterCommit, crashAtStart, superseded, eventAwaitsGrant, rejectionAwaitsGrant, unknownSigningKey
    case duplicateNotification, staleNotification, duplicateGrant, staleGrant
    case held, admitted, admittedOnRepetition, misconfigured, throttled, unavailable
    case lostAcknowledgement, leaseLapsed, timeout, tokenReplacedInFlight, cameBack, releasedFromQuarantine, operatorPause, askedAgain
    case readFailed, claimFailed, claimLost
    case importedToken, neverAccepted, restore, clockStep, ended, grantFromFuture, forgettingHeld
    case codeExchanged, codeTaken, codeLate, codeUsed, codeRefused, answerLost, badIdentityToken, userMismatch, issuedForNobody
    case revocationProved, alreadyInvalid, overtaken, nothingToRevoke, revocationInVain, askedTwiceToRevoke, proofBegunAnew, foreignToken
    case retold, namelessAnswer, noValidToken
    case teamChanged, otherTeam, tokenOfOtherTeamRejected
    case clientDropped, grantOfDroppedClient, eventOfDroppedClient
    case truncatedToken, misdatedSignIn, bulkDeletion, eventBeforeSignIn, clientRefused, freeze
}

/// The last lines of what happened, and a digest of all of them.
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
