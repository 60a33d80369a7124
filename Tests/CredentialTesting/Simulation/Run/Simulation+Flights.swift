// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

extension Simulation {
    struct Flight {
        enum Work {
            case check(DueCredential)
            case code(ClaimedCode)
            case revocation(DueRevocation)
        }

        var app: SimulatedApp
        var work: Work
        var request: SimulatedWorld.Request
        /// By the host's clock, and by Apple's.
        var sentAt: Timestamp
        var trulySentAt: Timestamp

        var credential: CredentialID? {
            switch work {
            case .check(let work): work.id
            case .revocation(let work): work.id
            case .code(let work):
                work.content.flatMap { content in content.userID.map { CredentialID(clientID: content.clientID, userID: $0) } }
            }
        }
    }

    static let timeout = Duration.seconds(15)

    /// Lets the process start a piece of work, until it waits for Apple.
    ///
    /// - Returns: whether it asks Apple anything.
    @discardableResult
    mutating func launch(
        _ work: Flight.Work,
        of app: SimulatedApp,
        _ resolve: @escaping @Sendable () async -> [Settlement]
    ) async throws -> Bool {
        let world = world
        // A task and not a group: it ends when the seed lets Apple answer, and until then the simulation goes on.
        Task { world.arrive(.resolved(await resolve())) }
        return try await follow(work, of: app)
    }

    /// - Returns: whether the process asks Apple again.
    private mutating func follow(_ work: Flight.Work, of app: SimulatedApp) async throws -> Bool {
        switch await world.nextArrival() {
        case .resolved(let settlements):
            if world.with({ $0.hasDied }) { throw Crash() }
            world.with { state in
                for case .revocation(let work, let verdict) in settlements where verdict == .admitted || verdict == .otherTeam {
                    guard let open = state.model.revocations[ReferenceModel.RevocationKey(work)] else { continue }
                    state.ledger.proofs.believes(work, keyID: open.keyID, since: open.askedAt)
                }
                for case .code(let work, .unknownClient) in settlements { state.ledger.codes.foundUnknown(work, at: state.now) }
            }
            waiting.append(settlements)
            return false
        case .request(let request):
            let flight = world.with { state in
                state.report(state.look(at: request, for: work))
                return Flight(app: app, work: work, request: request, sentAt: state.now, trulySentAt: state.truth)
            }
            flights.append(flight)
            return true
        }
    }

    mutating func answerOne() async throws {
        guard let flight = flights.randomElement(using: &generator) else { return }
        if chance(250), let credential = flight.credential { return try comeBack(credential) }
        let isSlow = world.with { $0.apple.weather[flight.app.name] == .slow }
        if isSlow { try advance(by: .seconds(Int.random(in: 1...20, using: &generator))) }
        try await answer(Int.random(in: flights.indices, using: &generator))
    }

    mutating func answer(_ index: Int) async throws {
        let flight = flights.remove(at: index)
        switch flight.request {
        case .refresh(let token, let credential, let answer):
            let response = world.with { $0.refresh(token, of: credential, for: flight, using: &generator) }
            hear(response.date)
            answer.resume(returning: response)
        case .exchange(let code, let redirectURI, let clientID, let answer):
            let response = exchange(code, redirectURI: redirectURI, from: clientID, for: flight)
            hear(response.date)
            answer.resume(returning: response)
        case .revoke(let token, let clientID, let answer):
            let response = revoke(token, from: clientID, for: flight)
            hear(response.date)
            answer.resume(returning: response)
        }
        _ = try await follow(flight.work, of: flight.app)
    }

    mutating func hear(_ date: Timestamp?) {
        guard let date else { return }
        // One of Apple's servers has another date, by chance never that of a wrong host.
        let error = Duration.seconds(Int.random(in: -90_000...90_000, using: &generator))
        let (hasHeard, offset) = world.with { ($0.heardAppleAt != nil, $0.offset) }
        if hasHeard, chance(20), error < offset - .seconds(120) || error > offset + .seconds(120) {
            process.clockGuard.observe(date.advanced(by: error), after: .zero)
            world.with { $0.count(.strayDate) }
        }
        process.clockGuard.observe(date, after: .zero)
        world.with { ($0.heardAppleAt, $0.clockWasSetSinceApple) = ($0.truth, false) }
    }

    /// Drops all requests under way. Apple may have got them all the same.
    mutating func abandon() async {
        for flight in flights {
            if chance(500) { happen(flight) }
            flight.request.abandon()
            while case .request(let request) = await world.nextArrival() { request.abandon() }
        }
        (flights, claimed, waiting) = ([], [], [])
    }

    /// Apple handles a request, and no process gets the answer.
    private mutating func happen(_ flight: Flight) {
        switch flight.request {
        case .refresh: break
        case .exchange(let code, let redirectURI, let clientID, _):
            if take(code, redirectURI: redirectURI, from: clientID) == nil { world.with { $0.count(.codeTaken) } }
        case .revoke(let token, let clientID, _): takeEffect(token, from: clientID)
        }
    }
}

extension SimulatedWorld.Request {
    fileprivate func abandon() {
        let nobody = ClientIdentity(clientID: "", keyID: "")
        switch self {
        case .refresh(_, _, let answer): answer.resume(returning: RefreshResponse(.unavailable("gone"), by: nobody))
        case .exchange(_, _, _, let answer):
            answer.resume(returning: ExchangeResponse(.unavailable("gone", isAnswerLost: true), by: nobody))
        case .revoke(_, _, let answer): answer.resume(returning: RevokeResponse(.unavailable("gone", isAnswerLost: true), by: nobody))
        }
    }
}

extension SimulatedWorld.State {
    /// - Returns: the violation, if the process may not ask this now.
    fileprivate mutating func look(at request: SimulatedWorld.Request, for work: Simulation.Flight.Work) -> Violation? {
        switch (work, request) {
        case (.check(let work), .refresh): return ledger.sent(work, at: truth)
        case (.code(let work), .exchange):
            note("code \(work.id) is sent")
            let (deadline, isPunctual) = (model.deadline(of: work), ledger.setAt == nil)
            return ledger.codes.sent(work, deadline: deadline, isPunctual: isPunctual, at: now, truly: truth)
        case (.code, .revoke(let token, _, _)): return discards(token)
        case (.revocation(let work), .refresh(let token, _, _)): return model.asks(work, toRevoke: false, token)
        case (.revocation(let work), .revoke(let token, _, _)): return model.asks(work, toRevoke: true, token)
        default: return Violation(.stateFollowsFromFacts, "a question that nobody has")
        }
    }

    /// siwatch revokes a token that became no sign-in, unless that would end a token of another sign-in.
    private mutating func discards(_ token: String) -> Violation? {
        note("\(token) is thrown away", counting: .issuedForNobody)
        guard let owner = apple.signInsOfToken[token].map({ apple.signIns[$0].credential }) else {
            return Violation(.noFalseRevocation, "\(token) is thrown away, which nobody has issued")
        }
        let held = model.credentials(of: owner.userID).first { model.row(of: $0)?.holdsToken ?? false }
        return held.map { _ in Violation(.noFalseRevocation, "a sign-in of \(owner.userID) that went wrong ends another one") }
    }
}
