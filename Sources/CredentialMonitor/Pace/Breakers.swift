// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// The breakers of all apps as last committed, the pauses of operators, and the clients that Apple has accepted since the start.
///
/// It sets the pace and chooses what to claim. But the settling transaction decides what is believed, on the breaker as it is then, and the
/// claiming transaction decides whether an app is paused.
package final class Breakers: Sendable {
    private let rules: BreakerRules
    private let interval: Duration
    private let timeout: Duration
    private let telemetry: Telemetry
    private let state = NIOLockedValueBox(State())

    private struct State {
        var breakers: [String: RejectionBreaker] = [:]
        /// How often each app's breaker was noted.
        var changes: [String: Int] = [:]
        /// Apps that an operator has paused.
        var paused: Set<String> = []
        var proofs = ClientProofs()
    }

    init(_ rules: SettlementRules, telemetry: Telemetry) {
        self.rules = rules.breaker
        interval = rules.policy.longestInterval
        timeout = rules.policy.timeout
        self.telemetry = telemetry
    }

    /// Loads the breakers and pauses from the store: at the start, after an operator's command, and when other replicas may have changed
    /// them.
    package func load(from reader: any BreakerReader) async throws {
        let paused = Set(try await reader.apps().filter { $0.pausedAt != nil }.map(\.app))
        state.withLockedValue { $0.paused = paused }
        for _ in 1...3 {
            let changes = state.withLockedValue(\.changes)
            // A commit during the read may be newer than what was read. Then it is read again.
            let read = try await reader.breakers()
            if note(read, unlessChangedSince: changes) { return }
        }
    }

    /// - Returns: whether all were noted.
    @discardableResult
    func note(_ breakers: [String: RejectionBreaker], unlessChangedSince changes: [String: Int]? = nil) -> Bool {
        var isComplete = true
        for (app, breaker) in breakers {
            let (isNoted, old) = state.withLockedValue { state in
                if let changes, changes[app] != state.changes[app] { return (false, state.breakers[app]) }
                state.changes[app, default: 0] += 1
                return (true, state.breakers.updateValue(breaker, forKey: app))
            }
            guard isNoted else {
                isComplete = false
                continue
            }
            switch (old?.isOpen ?? false, breaker.isOpen) {
            case (false, true): telemetry.breakerOpened(app, breaker)
            case (true, false): telemetry.breakerClosed(app)
            case (true, true), (false, false): break
            }
        }
        return isComplete
    }

    package func breaker(of app: String) -> RejectionBreaker {
        state.withLockedValue { $0.breakers[app] } ?? RejectionBreaker()
    }

    /// Whether Apple is asked almost nothing for an app: its breaker is open for more than a blamed client, or an operator has paused the
    /// app.
    func isHeldBack(_ app: String) -> Bool {
        state.withLockedValue { $0.paused.contains(app) || $0.breakers[app]?.isProbed ?? false }
    }

    /// Notes a 200 or an `invalid_grant`. Answers about a token that Apple had not accepted before measure nothing. Neither do rejections
    /// of a token that Apple had accepted from another team.
    func record(isValid: Bool, of work: DueCredential, by identity: ClientIdentity, at time: Timestamp) {
        guard isValid || work.verifiedTeam == identity.teamID else { return }
        if work.purpose == .check, work.wasAccepted {
            state.withLockedValue { [rules] in $0.proofs.record(isValid: isValid, by: identity, at: time, settle: rules.settle) }
        } else if isValid {
            recordAccepted(by: identity, isProof: work.wasAccepted, at: time)
        }
    }

    /// Notes a 200 that does not answer a check.
    ///
    /// - Parameter isProof: whether Apple had accepted this token before.
    func recordAccepted(by identity: ClientIdentity, isProof: Bool, at time: Timestamp) {
        state.withLockedValue { $0.proofs.recordValid(by: identity, isProof: isProof, at: time) }
    }

    /// Forgets all proofs of clients, for instance after a change of key.
    package func forgetProofs(of clients: Set<String>) {
        state.withLockedValue { $0.proofs.forget(clients: clients) }
    }

    /// Forgets what proves something at a later time. It came before the clock was set back, and must not prove what Apple answers now.
    func forgetProofs(after now: Timestamp) {
        state.withLockedValue { $0.proofs.forget(after: now) }
    }

    /// Whether Apple has accepted the client with this key within the last interval and since the start.
    func isProven(clientID: String, keyID: String, after time: Timestamp = .earliest, at now: Timestamp) -> Bool {
        state.withLockedValue { $0.proofs.isProven(clientID: clientID, keyID: keyID, after: time, at: now, within: interval) }
    }

    /// Whether Apple may be asked again about a token that it rejected at the first question. A second rejection is then believed. An
    /// incident must be over by now, and Apple must have accepted the client with the same key since.
    func mayAskAgain(_ work: DueRevocation, at now: Timestamp) -> Bool {
        guard let before = work.proof.before, let keyID = work.proof.keyID, !breaker(of: work.app).holds(work.id.clientID),
            before.askedAt.advanced(by: rules.settle) <= now
        else { return false }
        // A request of that moment may have been answered before the incident began.
        return isProven(clientID: work.id.clientID, keyID: keyID, after: before.askedAt.advanced(by: timeout), at: now)
    }

    /// The clients without a 200, with the key at work, within the last interval and since the start.
    func unproven(_ clients: Set<String>, at now: Timestamp) -> Set<String> {
        state.withLockedValue { [interval] in clients.subtracting($0.proofs.acceptedClients(at: now, within: interval)) }
    }

    /// The rules for the pending rejections of an app that are believed now.
    func admissions(of app: String, at now: Timestamp) -> [AdmissionRule] {
        let (breaker, proofs) = state.withLockedValue { ($0.breakers[app] ?? RejectionBreaker(), $0.proofs) }
        return breaker.admissions(with: proofs, under: rules, within: interval, at: now)
    }
}
