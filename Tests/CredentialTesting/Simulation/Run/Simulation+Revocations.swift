// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// Backends ask for revocations. Apple answers 200 to all of them.
extension Simulation {
    mutating func requestRevocation(_ person: Person, _ credential: CredentialID) {
        let named = chance(30) ? CredentialID(clientID: "stranger", userID: person.user) : credential
        var row = ReferenceModel.RequestRow(credential: named, requestedAt: truth)
        if plan.datesWrongly, chance(200) {
            row.requestedAt = truth.advanced(by: .seconds(Int.random(in: -7_200...3_600, using: &generator)))
            world.with { _ = $0.misdated.insert(person.user) }
            let lead = truth.duration(to: row.requestedAt)
            // The person comes back before that time.
            if lead > .zero, chance(700) { agenda.append((truth.advanced(by: lead * 3 / 4), .signIn(credential))) }
        }
        world.note("the app is to revoke what \(person.user) has granted")
        let delay: Duration = chance(200) ? .seconds(Int.random(in: 1...20_000, using: &generator)) : .zero
        agenda.append((truth.advanced(by: delay), .request(row)))
        // A backend that got no answer asks again.
        if chance(200) {
            world.with { $0.count(.askedTwiceToRevoke) }
            agenda.append((truth.advanced(by: delay + .seconds(Int.random(in: 0...60, using: &generator))), .request(row)))
        }
    }

    // MARK: The process

    mutating func claimRevocations() async throws {
        let handler = process.revocations
        // All loops turn within a second. Permits that this lane gives back must not bring an open breaker a probe too soon.
        let probed = plan.apps.indices.filter { process.writer.breakers.breaker(of: plan.apps[$0].name).isProbed }
        for app in probed { try await claimCredentials(of: app) }
        for work in try await work(for: handler, upTo: 8) {
            switch work {
            case .request: waiting.append(await handler.resolve(work))
            case .token(let revocation):
                let app = plan.apps.first { $0.name == revocation.app }!
                try await launch(.revocation(revocation), of: app) { await handler.resolve(work) }
                if chance(150) { try comeBack(revocation.id) }
                let isInCalm = steps >= plan.steps
                if plan.transfersInProofs, !isInCalm, revocation.proof.before?.word == .accepted, chance(800), mayTransfer {
                    try transfer(app, inMidProof: true)
                }
            }
        }
        for app in probed { try await claimCredentials(of: app) }
    }

    // MARK: Apple

    mutating func revoke(_ token: String, from clientID: String, for flight: Flight) -> RevokeResponse {
        let weather = world.with { state in state.apple.answer(toRevocationFrom: clientID, in: flight.app.name, using: &generator) }
        var outcome = weather ?? .accepted
        if world.with({ $0.isTimedOut(flight) }) || chance(60) {
            outcome = .unavailable("reset", isAnswerLost: true)
            if weather == nil, chance(500) { takeEffect(token, from: clientID) }
        } else if weather == nil, !chance(300) {
            takeEffect(token, from: clientID)
        }
        return world.with { state in
            let identity = state.identity(of: clientID, in: flight.app)
            if case .revocation(let work) = flight.work {
                let word: AnsweredQuestion.Word =
                    switch outcome {
                    case .news(.accepted): .revoked
                    case .unavailable(_, isAnswerLost: true, _): .unheard
                    case .misconfigured, .throttled, .unavailable: .none
                    }
                let ofClient = ReferenceModel.ClientWord(outcome, sentAt: state.dated(flight))
                state.answered(work, word, by: identity, on: flight, ofClient)
            }
            state.note("Apple answers a revocation at \(clientID): \(outcome)")
            return RevokeResponse(outcome, by: identity, date: state.truth.second)
        }
    }

    /// All grants of the user to the app end, and sometimes Apple sends a notification.
    mutating func takeEffect(_ token: String, from clientID: String) {
        guard let credential = world.with({ $0.apple.revoke(token, from: clientID, at: $0.truth) }) else { return }
        world.note("\(credential.userID) is revoked at Apple")
        hasActed(credential.userID)
        guard !plan.revokesAlone, chance(300), let app = plan.apps.first(where: { $0.clientIDs.contains(clientID) }) else { return }
        let post = world.with { $0.apple.sign(.consentRevoked, credential, of: app, at: $0.truth) }
        agenda.append((truth.advanced(by: .seconds(Int.random(in: 0...120, using: &generator))), .post(post)))
    }
}
