// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

/// A token endpoint that gives a test's scripted answers, and records all requests.
package final class ScriptedTokenEndpoint: TokenEndpoint {
    package struct Call: Sendable, Equatable {
        package let credential: CredentialID
        package let token: Secret
        package let sentAt: Timestamp
    }

    package struct Exchange: Sendable, Equatable {
        package let clientID: String
        package let code: Secret
        package let redirectURI: String?
        package let sentAt: Timestamp
    }

    package struct Revocation: Sendable, Equatable {
        package let clientID: String
        package let token: Secret
    }

    fileprivate struct State: Sendable {
        /// The asking key and its team, which every answer names.
        var keyID = "TESTKEY001"
        var teamID = ScriptedTokenEndpoint.teamID
        var calls: [Call] = []
        var exchanges: [Exchange] = []
        var revocations: [Revocation] = []
        /// Answers to codes and to revocations, in order. The last one repeats.
        var issues: [EndpointAnswer<ExchangeNews>] = [.unavailable("no script", isAnswerLost: false)]
        var ends: [EndpointAnswer<RevokeNews>] = [.accepted]
        /// Answers about a user, in order. The script under nil serves all users without a script of their own.
        var scripts: [String?: [EndpointAnswer<RefreshNews>]] = [nil: [.valid]]
        /// Tokens that Apple rejects, whatever the scripts say.
        var rejected: Set<Secret> = []
        /// Whether answers wait.
        var isHeld = false
    }

    private let clock: WallClock
    private let state: Observed<State>

    package static let teamID = "TESTTEAM01"

    package init(clock: WallClock) { (self.clock, state) = (clock, Observed(State())) }

    /// Answers the next requests about a user with `outcomes`, one after another. The last one repeats.
    ///
    /// Without a user, it is the script of all users without their own. They share it in the order of their requests.
    package func answer(_ outcomes: EndpointAnswer<RefreshNews>..., for userID: String? = nil) { answer(outcomes, for: userID) }

    package func answer(_ outcomes: [EndpointAnswer<RefreshNews>], for userID: String? = nil) {
        state.update { $0.scripts[userID] = outcomes }
    }

    /// Rejects a token, whatever its user's script says.
    package func reject(token: String) { state.update { _ = $0.rejected.insert(Secret(token)) } }

    /// Answers the next codes with `outcomes`, one after another. The last one repeats.
    package func answerCodes(_ outcomes: EndpointAnswer<ExchangeNews>...) { state.update { $0.issues = outcomes } }

    /// Answers the next revocations with `outcomes`, one after another. The last one repeats.
    package func answerRevocations(_ outcomes: EndpointAnswer<RevokeNews>...) { state.update { $0.ends = outcomes } }

    /// From now on, answers name this key and this team as the asking ones.
    package func sign(with keyID: String, of teamID: String) { state.update { ($0.keyID, $0.teamID) = (keyID, teamID) } }

    private func identity(of clientID: String) -> ClientIdentity {
        let state = state.value
        return ClientIdentity(clientID: clientID, keyID: state.keyID, teamID: state.teamID)
    }

    /// Accepts requests but holds their answers back. The endpoint chooses the answer on arrival.
    package func holdAnswers() { state.update { $0.isHeld = true } }
    package func releaseAnswers() { state.update { $0.isHeld = false } }

    /// All requests so far, in the order of arrival, unanswered ones included.
    package var calls: [Call] { state.value.calls }
    package var exchanges: [Exchange] { state.value.exchanges }
    package var revocations: [Revocation] { state.value.revocations }

    /// Waits for the n-th request, counted from 1.
    @discardableResult
    package func call(_ number: Int) async throws -> Call {
        try await state.first { $0.calls.count >= number ? $0.calls[number - 1] : nil }
    }

    package func refresh(_ token: Secret, of credential: CredentialID) async -> RefreshResponse {
        let call = Call(credential: credential, token: token, sentAt: clock.now)
        let outcome = state.update { $0.outcome(of: call) }
        let identity = identity(of: credential.clientID)
        do {
            try await state.wait { !$0.isHeld }
            return RefreshResponse(outcome, by: identity)
        } catch {
            return RefreshResponse(.unavailable("cancelled"), by: identity)
        }
    }

    package func exchange(_ code: Secret, redirectURI: String?, of clientID: String) async -> ExchangeResponse {
        let exchange = Exchange(clientID: clientID, code: code, redirectURI: redirectURI, sentAt: clock.now)
        let outcome = state.update { state in
            state.exchanges.append(exchange)
            return state.issues.next()
        }
        return ExchangeResponse(outcome, by: identity(of: clientID))
    }

    package func revoke(_ token: Secret, of clientID: String) async -> RevokeResponse {
        let outcome = state.update { state in
            state.revocations.append(Revocation(clientID: clientID, token: token))
            return state.ends.next()
        }
        return RevokeResponse(outcome, by: identity(of: clientID))
    }
}

extension ScriptedTokenEndpoint.State {
    mutating func outcome(of call: ScriptedTokenEndpoint.Call) -> EndpointAnswer<RefreshNews> {
        calls.append(call)
        if rejected.contains(call.token) { return .rejected }
        let script = scripts[call.credential.userID] == nil ? nil : call.credential.userID
        return scripts[script]!.next()
    }
}

extension Array {
    /// Takes the first of a script. The last one repeats.
    fileprivate mutating func next() -> Element {
        precondition(!isEmpty, "A script needs an outcome.")
        return count == 1 ? self[0] : removeFirst()
    }
}

/// Answers as tests write them, by their news alone.
extension EndpointAnswer<RefreshNews> {
    package static var valid: Self { .news(.valid) }
    package static var unnamed: Self { .news(.unnamed) }
    package static var rejected: Self { .news(.rejected) }
    package static var anotherUser: Self { .news(.anotherUser) }
    package static func ambiguous(_ detail: String) -> Self { .news(.ambiguous(detail)) }
}

extension EndpointAnswer<ExchangeNews> {
    package static func issued(_ tokens: IssuedTokens) -> Self { .news(.issued(tokens)) }
    package static func refused(_ reason: GrantRejection, detail: String) -> Self { .news(.refused(reason, detail: detail)) }
}

extension EndpointAnswer<RevokeNews> {
    package static var accepted: Self { .news(.accepted) }
}
