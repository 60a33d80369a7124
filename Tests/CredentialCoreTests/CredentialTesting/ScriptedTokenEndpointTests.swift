// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// The scripted endpoint of the tests: it answers by its script, and records the requests.
@Suite struct ScriptedTokenEndpointTests {
    private let clock: TestClock
    private let endpoint: ScriptedTokenEndpoint
    private let anna = CredentialID(clientID: "com.example.app", userID: "anna")
    private let bert = CredentialID(clientID: "com.example.app", userID: "bert")

    init() {
        clock = TestClock(now: at(1_000))
        endpoint = ScriptedTokenEndpoint(clock: clock.wallClock, keyID: "KEY1")
    }

    @Test func withoutAScriptEveryTokenIsValid() async {
        let response = await ask(anna)
        let identity = ClientIdentity(clientID: "com.example.app", keyID: "KEY1", teamID: ScriptedTokenEndpoint.teamID)
        #expect(response == RefreshResponse(.valid, by: identity))
    }

    @Test func aScriptIsReadInOrderAndItsLastLineRepeats() async {
        endpoint.answer(.unavailable("503"), .throttled(retryAfter: .seconds(5)), .rejected, for: "anna")
        var outcomes: [EndpointAnswer<RefreshNews>] = []
        for _ in 1...4 { outcomes.append(await ask(anna).answer) }
        #expect(outcomes == [.unavailable("503"), .throttled(retryAfter: .seconds(5)), .rejected, .rejected])
    }

    @Test func whoHasNoScriptSharesTheCommonOne() async {
        endpoint.answer(.misconfigured("invalid_client"), .valid)
        endpoint.answer(.rejected, for: "bert")
        #expect(await ask(anna).answer == .misconfigured("invalid_client"))
        #expect(await ask(bert).answer == .rejected)
        #expect(await ask(anna).answer == .valid)
    }

    @Test func itRemembersWhoAskedAndWhen() async throws {
        _ = await ask(anna, Secret("first"))
        clock.advance(by: .seconds(1))
        _ = await ask(bert, Secret("second"))
        #expect(endpoint.calls.map(\.credential) == [anna, bert])
        #expect(endpoint.calls.map(\.token) == [Secret("first"), Secret("second")])
        #expect(endpoint.calls.map(\.sentAt) == [at(1_000), at(2_000)])
        #expect(try await endpoint.call(2) == endpoint.calls[1])
    }

    @Test func anAnswerWaitsUntilItIsReleased() async throws {
        endpoint.holdAnswers(for: "anna")
        endpoint.answer(.rejected, for: "anna")
        async let held = ask(anna)
        try await endpoint.call(1)
        #expect(await ask(bert).answer == .valid)

        // The endpoint chose the answer on arrival. A later script does not change it.
        endpoint.answer(.valid, for: "anna")
        endpoint.releaseAnswers(for: "anna")
        #expect(await held.answer == .rejected)
    }

    @Test func everybodyCanBeHeld() async throws {
        endpoint.holdAnswers()
        endpoint.holdAnswers(for: "anna")
        async let first = ask(anna)
        async let second = ask(bert)
        try await endpoint.call(2)
        endpoint.releaseAnswers()
        #expect(await [first, second].map(\.answer) == [.valid, .valid])
    }

    @Test func aCancelledRequestIsUnavailable() async throws {
        endpoint.holdAnswers()
        let request = Task { await ask(anna) }
        try await endpoint.call(1)
        request.cancel()
        #expect(await request.value.answer == .unavailable("cancelled"))
    }

    @Test func aWaitForARequestCanBeCancelled() async {
        let wait = Task { try await endpoint.call(1) }
        wait.cancel()
        await #expect(throws: CancellationError.self) { try await wait.value }
    }

    private func ask(_ credential: CredentialID, _ token: Secret = Secret("token")) async -> RefreshResponse {
        await endpoint.refresh(token, of: credential)
    }
}
