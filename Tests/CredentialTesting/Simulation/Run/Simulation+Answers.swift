// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What Apple answers to questions about tokens.
extension SimulatedWorld.State {
    func identity(of clientID: String, in app: SimulatedApp) -> ClientIdentity {
        let identity = apple.identities[app.name] ?? (keyID: 0, load: 0)
        let (key, team) = ("KEY\(identity.keyID)", "TEAM\(apple.team(of: clientID))")
        return ClientIdentity(clientID: clientID, keyID: key, teamID: team, load: identity.load)
    }

    func isTimedOut(_ flight: Simulation.Flight) -> Bool { flight.trulySentAt.duration(to: truth) >= Simulation.timeout }

    /// The time of a request that the process must record: by Apple's clock, which leaves a second open, if the host's is off by a minute.
    func dated(_ flight: Simulation.Flight) -> Timestamp {
        offset == .zero ? flight.sentAt : truth.second.advanced(by: truth.duration(to: flight.trulySentAt))
    }

    mutating func refresh(
        _ token: String,
        of credential: CredentialID,
        for flight: Simulation.Flight,
        using generator: inout SeededGenerator
    ) -> RefreshResponse {
        let isDead = !apple.isAlive(token, at: credential)
        var outcome = apple.answer(token, of: credential, in: flight.app.name, using: &generator)
        if isTimedOut(flight) {
            outcome = .unavailable("timeout")
            count(.timeout)
        }
        if case .misconfigured = outcome, credential.clientID == apple.refused { count(.clientRefused) }
        let identity = identity(of: credential.clientID, in: flight.app)
        switch flight.work {
        case .check(let work):
            if outcome.isAccepted, model.wasAccepted(work.token, of: credential) {
                ledger.proofs.accepted(identity.clientID, keyID: identity.keyID, at: now)
            }
            if outcome == .rejected, !isDead, model.verifiedTeam(of: credential).map({ $0 != identity.teamID }) ?? false {
                count(.tokenOfOtherTeamRejected)
            }
            let call = AnsweredCall(
                credential: credential,
                outcome: outcome,
                sentAt: dated(flight),
                trulySentAt: flight.trulySentAt,
                answeredAt: truth,
                // A rejection of a token that Apple never accepted and issued to another team ends the asking, but no sign-in.
                isDead: isDead || !model.wasAccepted(work.token, of: credential) && !apple.isAccepted(token, at: credential),
                team: identity.teamID
            )
            ledger.answered(work, call)
            count(outcome)
        case .revocation(let work):
            let wasAccepted =
                work.standing != .neverAccepted || work.proof.next == .isStillAccepted || model.wasAccepted(work.token, of: credential)
            if outcome.isAccepted, wasAccepted { ledger.proofs.accepted(identity.clientID, keyID: identity.keyID, at: now) }
            let word: AnsweredQuestion.Word =
                switch outcome {
                case .news(.valid): .accepted
                case .news(.unnamed): .unnamed
                case .news(.rejected): .rejected
                case .news(.anotherUser): .foreign
                case .news(.ambiguous), .misconfigured, .throttled, .unavailable: .none
                }
            let ofClient = ReferenceModel.ClientWord(outcome, sentAt: dated(flight))
            answered(work, word, by: identity, on: flight, isLie: word == .rejected && !isDead, ofClient)
            if word == .foreign { count(.foreignToken) }
        case .code: preconditionFailure("A code asks about no token.")
        }
        note("Apple answers \(credential.clientID) \(credential.userID): \(outcome)")
        return RefreshResponse(outcome, by: identity, date: truth.second)
    }

    /// - Parameter isLie: whether Apple rejected a token that is good.
    mutating func answered(
        _ work: DueRevocation,
        _ word: AnsweredQuestion.Word,
        by identity: ClientIdentity,
        on flight: Simulation.Flight,
        isLie: Bool = false,
        _ ofClient: ReferenceModel.ClientWord?
    ) {
        var question = AnsweredQuestion(word: word, keyID: identity.keyID, askedAt: flight.sentAt, date: truth.second)
        (question.team, question.isLie, question.ofClient) = (identity.teamID, isLie, ofClient)
        ledger.proofs.answered(work, question)
    }

    fileprivate mutating func count(_ outcome: EndpointAnswer<RefreshNews>) {
        switch outcome {
        case .misconfigured: count(.misconfigured)
        case .throttled: count(.throttled)
        case .unavailable: count(.unavailable)
        case .news(.unnamed): count(.namelessAnswer)
        case .news(.valid), .news(.rejected), .news(.ambiguous), .news(.anotherUser): break
        }
    }
}

extension EndpointAnswer<RefreshNews> {
    /// A 200, whichever user it names.
    fileprivate var isAccepted: Bool { self == .valid || self == .unnamed }
}
