// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// The breakers of all apps as last committed, the pauses of operators, and the clients that Apple has accepted since the start. It sets
/// the pace and chooses what to claim. The settling transaction decides what is believed, and the claiming one whether an app is paused.
package final class Breakers: Sendable {
    private let rules: BreakerRules
    private let policy: RefreshPolicy
    private let telemetry: Telemetry
    private let state = NIOLockedValueBox(State())

    private struct State {
        var breakers: [String: RejectionBreaker] = [:]
        var changes: [String: Int] = [:]
        var paused: Set<String> = []
        var proofs = ClientProofs()
    }

    init(_ rules: SettlementRules, telemetry: Telemetry) {
        (self.rules, policy, self.telemetry) = (rules.breaker, rules.policy, telemetry)
    }

    /// Loads the breakers and pauses from the store: at the start, after an operator's command, and with each renewal of lanes.
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
        let noted = state.withLockedValue { state in
            breakers.filter { changes == nil || changes?[$0.key] == state.changes[$0.key] }.map { app, breaker in
                state.changes[app, default: 0] += 1
                return (app, breaker, wasOpen: state.breakers.updateValue(breaker, forKey: app)?.isOpen ?? false)
            }
        }
        for (app, breaker, wasOpen) in noted where breaker.isOpen != wasOpen {
            if breaker.isOpen { telemetry.breakerOpened(app, breaker) } else { telemetry.breakerClosed(app) }
        }
        return noted.count == breakers.count
    }

    package func breaker(of app: String) -> RejectionBreaker {
        state.withLockedValue { $0.breakers[app] } ?? RejectionBreaker()
    }

    /// Whether Apple is asked almost nothing for an app: its breaker is open for more than a blamed client, or an operator has paused it.
    func isHeldBack(_ app: String) -> Bool {
        state.withLockedValue { $0.paused.contains(app) || $0.breakers[app]?.isProbed ?? false }
    }

    /// Notes how Apple answers checks: by a 200 or an `invalid_grant`. Answers about a token that Apple had not accepted before measure
    /// nothing. Neither do rejections of a token that Apple had accepted from another team.
    func record(isValid: Bool, of work: DueCredential, by identity: ClientIdentity, at time: Timestamp) {
        guard work.purpose == .check, work.wasAccepted, isValid || work.verifiedTeam == identity.teamID else { return }
        state.withLockedValue { [rules] in $0.proofs.record(isValid: isValid, by: identity, at: time, settle: rules.settle) }
    }

    /// Notes a 200, `isProof` if Apple had accepted this token before.
    func recordAccepted(by identity: ClientIdentity, isProof: Bool, at time: Timestamp) {
        state.withLockedValue { $0.proofs.recordValid(by: identity, isProof: isProof, at: time) }
    }

    package func forgetProofs(of clients: Set<String>) { state.withLockedValue { $0.proofs.forget(clients: clients) } }

    /// Forgets what proves something at a later time. It came before the clock was set back, and must not prove what Apple answers now.
    func forgetProofs(after now: Timestamp) { state.withLockedValue { $0.proofs.forget(after: now) } }

    /// Whether Apple has accepted the client with this key within the last interval and since the start.
    func isProven(clientID: String, keyID: String, after time: Timestamp = .earliest, at now: Timestamp) -> Bool {
        state.withLockedValue { $0.proofs.isProven(clientID: clientID, keyID: keyID, after: time, at: now, within: policy.longestInterval) }
    }

    /// Whether Apple may be asked again about a token that it rejected at the first question. A second rejection is then believed. An
    /// incident must be over by now, and Apple must have accepted the client with the same key since.
    func mayAskAgain(_ work: DueRevocation, at now: Timestamp) -> Bool {
        guard let before = work.proof.before, let keyID = work.proof.keyID, !breaker(of: work.app).holds(work.id.clientID),
            before.askedAt.advanced(by: rules.settle) <= now
        else { return false }
        // A request of that moment may have been answered before the incident began.
        return isProven(clientID: work.id.clientID, keyID: keyID, after: before.askedAt.advanced(by: policy.timeout), at: now)
    }

    /// The clients without a 200, with the key at work, within the last interval and since the start.
    func unproven(_ clients: Set<String>, at now: Timestamp) -> Set<String> {
        state.withLockedValue { [policy] in clients.subtracting($0.proofs.acceptedClients(at: now, within: policy.longestInterval)) }
    }

    func admissions(of app: String, at now: Timestamp) -> [AdmissionRule] {
        let (breaker, proofs) = state.withLockedValue { ($0.breakers[app] ?? RejectionBreaker(), $0.proofs) }
        return breaker.admissions(with: proofs, under: rules, within: policy.longestInterval, at: now)
    }
}
