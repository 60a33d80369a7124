// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

@Suite(.eachStore, .timeLimit(.minutes(10))) struct TokenErasureTests: ConformanceSuite {
    private static let later = Timestamp.start + .hours(1)
    private static let muchLater = Timestamp.start + .days(400)

    @Test(arguments: [Event.Kind.consentRevoked, .accountDeleted]) func signedEvidenceErasesAtOnce(_ event: Event.Kind) async throws {
        try await store.signIn(client: "app", token: "r1")
        try await store.signIn(client: "web", token: "r2")
        try await store.notify(event, at: Self.later)
        #expect(try await store.sealedTokens == 0)
        #expect(try await store.column("SELECT next_check_at FROM credential_state") == [nil, nil])
        #expect(try await store.claimCredentials(at: Self.muchLater).isEmpty)
    }

    @Test(arguments: [Event.Kind.consentRevoked, .accountDeleted]) func evidenceThatIsNotNewerDoesNot(_ event: Event.Kind) async throws {
        try await store.signIn(token: "r")
        #expect(try await store.notify(event, at: .start) == .notification(.stale))
        #expect(try await store.rows("SELECT state, reason FROM credential_state") == [["authorized", "granted"]])
        #expect(try await store.sealedTokens == 1)
        #expect(try await store.claimCredentials(at: Self.muchLater).count == 1)
    }

    @Test(arguments: [Event.Kind.emailDisabled(nil), .unknown]) func otherEventsDoNot(_ event: Event.Kind) async throws {
        try await store.signIn(token: "r")
        try await store.notify(event, at: Self.later)
        #expect(try await store.sealedTokens == 1)
    }

    @Test func aTokenThatComesTooLateIsNeverKept() async throws {
        try await store.notify(.consentRevoked, at: Self.later)
        try await store.signIn(token: "r", at: .start, now: Self.later)
        #expect(try await store.sealedTokens == 0)
    }

    /// A newer sign-in without a token leaves no token to fall back on. The old token stays erased.
    @Test func whatIsErasedStaysErased() async throws {
        try await store.signIn(token: "r")
        try await store.notify(.consentRevoked, at: Self.later)
        try await store.signIn(token: "r", at: .start, now: Self.later)
        try await store.signIn(at: Self.later + .hours(1))
        #expect(try await store.rows("SELECT state, next_check_at FROM credential_state") == [["authorized", nil]])
        #expect(try await store.sealedTokens == 0)
    }
}
