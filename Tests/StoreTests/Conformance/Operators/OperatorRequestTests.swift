// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct OperatorRequestTests: ConformanceSuite {
    @Test func isAnsweredOnce() async throws {
        let id = try await store.ports.submit(.pause(app: "example"), at: .start)
        #expect(try await store.ports.answer(to: id) == nil)
        let handled = try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: .start)
        #expect(handled?.request == .pause(app: "example"))
        #expect(handled?.answer == .paused(since: .start))
        #expect(try await store.ports.answer(to: id) == .paused(since: .start))
        #expect(try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: .start) == nil)
        #expect(try await !store.ports.withdraw(id))
    }

    @Test func isNotCarriedOutOnceWithdrawn() async throws {
        let id = try await store.ports.submit(.pause(app: "example"), at: .start)
        #expect(try await store.ports.withdraw(id))
        #expect(try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: .start) == nil)
        #expect(try await store.ports.apps().map(\.pausedAt) == [nil, nil])
    }

    /// The command was killed, and siwatch started a day later.
    @Test func expires() async throws {
        let id = try await store.ports.submit(.pause(app: "example"), at: .start)
        _ = try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: .start + .seconds(61))
        #expect(try await store.ports.answer(to: id) == .expired)
        #expect(try await store.ports.apps().map(\.pausedAt) == [nil, nil])
    }

    @Test(arguments: ["", "{}", "null", #"{"dance":{}}"#, #"{"pause":{"app":1}}"#]) func isSafeToGetWrong(_ text: String) async throws {
        try await store.run("INSERT INTO operator_request (request, requested_at) VALUES (?, ?)", [.text(text), .at(.start)])
        let handled = try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: .start)
        // Only siwatch's own user is told that it was not understood.
        let isRefused = if case .refused = handled?.answer { true } else { false }
        #expect(isRefused)
        #expect(try await store.ports.handleNextRequest(under: StoreUnderTest.recheckRules, at: .start) == nil)
    }

    @Test func isForgottenOnceAnswered() async throws {
        _ = try await store.ask(.pause(app: "example"))
        _ = try await store.ports.submit(.resume(app: "example"), at: .start)
        try await store.ports.maintain(at: .start + .minutes(59))
        #expect(try await store.count("operator_request") == 2)
        try await store.ports.maintain(at: .start + .minutes(61))
        #expect(try await store.count("operator_request") == 1)
    }

    // MARK: Pauses

    @Test func aPausedAppIsAskedNothing() async throws {
        try await store.signIn(token: "r")
        try await store.signIn(client: "elsewhere", token: "r")
        #expect(try await store.ask(.pause(app: "example")) == .paused(since: .start))
        // Paused again: it is still the first pause.
        #expect(try await store.ask(.pause(app: "example"), at: .start + .days(1)) == .paused(since: .start))
        #expect(try await store.ports.apps().map(\.app) == ["example", "other"])
        #expect(try await store.ports.apps().map(\.pausedAt) == [.start, nil])

        let now = Timestamp.start + .days(2)
        #expect(try await store.claimCredentials(at: now).isEmpty)
        #expect(try await store.claimCredentials(of: "other", at: now).count == 1)
        // Notifications and sign-ins go on, and the pause itself changed nothing.
        #expect(try await store.column("SELECT state FROM credential_state") == ["authorized", "authorized"])
        #expect(try await store.notify(.consentRevoked, at: now) == .notification(.applied))
        #expect(try await store.signIn(token: "new", at: now + .minutes(1)) == .grant(.applied, nil))

        #expect(try await store.ask(.resume(app: "example"), at: now) == .resumed(wasPaused: true))
        #expect(try await store.ask(.resume(app: "example"), at: now) == .resumed(wasPaused: false))
        #expect(try await store.claimCredentials(at: now + .days(2)).count == 1)
    }

    @Test func anAppThatNobodyKnowsIsNamed() async throws {
        for request in [OperatorRequest.pause(app: "x"), .resume(app: "x"), .recheckApp("x")] {
            #expect(try await store.ask(request) == .unknownApp(known: ["example", "other"]))
        }
    }
}
