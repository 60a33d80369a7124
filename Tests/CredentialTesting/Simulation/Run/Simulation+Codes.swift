// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor

/// People sign in by code, and backends hand the codes in. Apple takes each code once.
extension Simulation {
    struct CodeRow {
        var code: Int
        var clientID: String
        /// Nil if the backend leaves the user to Apple.
        var userID: String?
        var redirectURI: String?
        var grantedAt: Timestamp
    }

    mutating func signInByCode(_ person: Person, _ credential: CredentialID) {
        let redirectURI = chance(300) ? "https://example.com/back" : nil
        let (number, at) = world.with { state in
            state.note("\(person.user) signs in by code at \(credential.clientID)")
            return (state.apple.signInByCode(credential, at: state.truth, redirectURI: redirectURI), state.truth)
        }
        var row = CodeRow(code: number, clientID: credential.clientID, redirectURI: redirectURI, grantedAt: at)
        if chance(500) { row.userID = credential.userID }
        // Backends make mistakes.
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<10: row.userID = people.randomElement(using: &generator)!.user
        case 10..<13: row.clientID = person.app.clientIDs.randomElement(using: &generator)!
        case 13..<15: row.redirectURI = "https://example.com/elsewhere"
        case 15..<17: row.clientID = "stranger"
        default: break
        }
        var delay = Duration.zero
        if chance(300) { delay = .seconds(Int.random(in: 1...290, using: &generator)) }
        if plan.delaysGrants, chance(200) { delay = .seconds(Int.random(in: 290...20_000, using: &generator)) }
        agenda.append((at.advanced(by: delay), .code(row)))
        // A backend that got no answer inserts again.
        if chance(150) { agenda.append((at.advanced(by: delay + .seconds(Int.random(in: 0...60, using: &generator))), .code(row))) }
        // Some people revoke while the code still waits.
        if chance(plan.revocations) {
            // Some within the moment in which siwatch sends the code.
            let isAtOnce = chance(400)
            let after = Int.random(in: isAtOnce ? 1...900 : 2_000...60_000, using: &generator)
            let asked = at.advanced(by: delay + .milliseconds(after))
            agenda.append((asked, .request(ReferenceModel.RequestRow(credential: credential, requestedAt: asked))))
        }
    }

    // MARK: The process

    mutating func claimCodes() async throws {
        let isAlone = !flights.contains { if case .code = $0.work { true } else { false } }
        let width = process.codes.width
        for work in try await work(for: process.codes, upTo: isAlone ? width : width - 1) {
            if chance(800) { try await launch(work) } else { claimed.append(.code(work)) }
        }
    }

    mutating func launch(_ work: ClaimedCode) async throws {
        let handler = process.codes
        let app = plan.apps.first { $0.clientIDs.contains(work.content?.clientID ?? "") } ?? plan.apps[0]
        let isSent = try await launch(.code(work), of: app) { await handler.resolve(work) }
        guard !isSent, work.claim.attempts <= 5, work.app != nil, work.content?.clientID != dropped?.clientID else { return }
        // The client was paused since the claim.
        if case .code(_, .unpermitted)? = waiting.last?.first { return }
        world.with { state in
            let (deadline, isPunctual) = (state.model.deadline(of: work), state.ledger.setAt == nil)
            state.report(state.ledger.codes.unsent(work, deadline: deadline, isPunctual: isPunctual, at: state.now))
        }
    }

    // MARK: Apple

    /// - Returns: why Apple does not take a code; nil if it does.
    mutating func take(_ code: String, redirectURI: String?, from clientID: String) -> GrantRejection? {
        let (refusal, user) = world.with { state in
            let refusal = state.apple.take(code, redirectURI: redirectURI, from: clientID, at: state.truth)
            return (refusal, refusal == nil ? state.apple.issued(for: code)?.credential.userID : nil)
        }
        hasActed(user)
        return refusal
    }

    mutating func exchange(_ code: String, redirectURI: String?, from clientID: String, for flight: Flight) -> ExchangeResponse {
        guard case .code(let work) = flight.work else { preconditionFailure("Nobody else has a code.") }
        var call = world.with { state in
            let sentAt = state.dated(flight)
            return AnsweredExchange(sentAt: sentAt, dated: state.now, trulySentAt: flight.trulySentAt, answeredAt: state.truth)
        }
        let weather = world.with { state in state.apple.answer(toCodeOf: clientID, in: flight.app.name, using: &generator) }
        if world.with({ $0.isTimedOut(flight) }) || chance(60) {
            // The road broke, on the way there or on the way back.
            if weather == nil, chance(500), take(code, redirectURI: redirectURI, from: clientID) == nil {
                world.with { $0.count(.codeTaken) }
            }
        } else if let weather {
            call.outcome = weather
        } else if let refusal = take(code, redirectURI: redirectURI, from: clientID) {
            call.outcome = .refused(refusal, detail: "simulated")
        } else {
            issue(&call, for: code, flight)
        }
        return world.with { state in
            // The moment within Apple's second that is nearest to the host's clock.
            let date = state.truth.second
            call.dated = min(max(call.dated, date), date.advanced(by: .milliseconds(999)))
            let identity = state.identity(of: clientID, in: flight.app)
            call.team = identity.teamID
            state.ledger.codes.answered(work, call)
            state.note("Apple answers code \(work.id): \(call.outcome)")
            return ExchangeResponse(call.outcome, by: identity, date: date)
        }
    }

    private mutating func issue(_ call: inout AnsweredExchange, for code: String, _ flight: Flight) {
        let signIn = world.with { $0.apple.issued(for: code)! }
        let truth = truth
        let issuedAt = (chance(300) ? flight.trulySentAt : truth).second
        var identity = ScriptedApple.Identity(userID: signIn.credential.userID, issuedAt: issuedAt, signedInAt: signIn.at)
        if chance(300) { identity.address = people.first { $0.user == signIn.credential.userID }?.address }
        if chance(50) { identity.keyIsPublishedAt = truth.advanced(by: .seconds(Int.random(in: 1...30, using: &generator))) }
        identity.isGood = !chance(60)
        identity.isReadable = identity.isGood || chance(700)
        // The reads that decide about the answer fail, most often when they decide anything. In the calm nothing fails.
        let isLeaving = world.with { $0.model.requestRows.values.contains { $0.credential.userID == signIn.credential.userID } }
        if steps < plan.steps, chance(isLeaving ? 500 : plan.troublesStore ? 200 : 0) { troubleStore() }
        let number = world.with { state in
            state.apple.identityTokens.append(identity)
            return state.apple.identityTokens.count - 1
        }
        call.identity = identity
        call.token = signIn.token
        let text = Secret(identity.isReadable ? String(number) : "?")
        let named = identity.isReadable ? identity.userID : nil
        call.outcome = .issued(IssuedTokens(refreshToken: signIn.token.map { Secret($0) }, identityToken: text, namedUserID: named))
    }

    /// No person does two things within one second.
    mutating func hasActed(_ user: String?) {
        guard let user, let index = people.firstIndex(where: { $0.user == user }) else { return }
        people[index].lastActedAt = truth
    }
}
