// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Testing

/// An undo keeps each user that a backend or Apple has told of too.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct ImportUndoKeepsTests: ImportUndoSuite {
    @Test func whatABackendToldBetweenOrAfterStays() async throws {
        try await tell(["same", "other", "untold"].map { Self.signIn($0) })
        // Before the daemon takes the import, a backend tells the same sign-in, a newer token, and nothing.
        try await store.grant("same", token: "r.same")
        try await store.grant("other", token: "new", at: .start + .minutes(1))
        try await store.settleGrants(at: Self.later)
        let result = try await undo()
        #expect(result.removed == 1 && result.stayed == 2)
        #expect(try await users() == ["other", "same"])
        #expect(try await store.sealedTokens == 2)
    }

    /// A rejected row tells nothing.
    @Test func aWaitingRowOfABackendKeepsTheUser() async throws {
        try await imported("waits", "rejected")
        try await store.grant("rejected", at: Self.later)
        try await store.settleGrants(at: Self.later) { _ in .rejected(.malformed) }
        try await store.grant("waits", at: Self.later)
        let result = try await undo()
        #expect(result.removed == 1 && result.stayed == 1)
        #expect(try await users() == ["waits"])
        #expect(try await store.count("grant_queue") == 1)
    }

    /// The log of the sign-in may be gone.
    @Test func whomABackendToldBeforeStays() async throws {
        try await store.signIn("ann", token: "r.ann")
        try await store.signIn("bob", token: "old", at: .start - .days(1))
        try await store.run("DELETE FROM grant_log")
        try await tell(["ann", "bob", "cat"].map { Self.signIn($0) }, settledAt: .start)
        let result = try await undo()
        #expect(result.removed == 1 && result.stayed == 2)
        #expect(try await users() == ["ann", "bob"])
    }

    @Test func whatAppleToldStays() async throws {
        try await store.notify(.consentRevoked, "first", at: .start - .days(1), now: .start)
        try await tell(["first", "old", "new", "mail", "none", "rejected"].map { Self.signIn($0) }, settledAt: .start)
        try await store.notify(.consentRevoked, "old", at: .start - .days(1), now: Self.later)
        try await store.notify(.consentRevoked, "new", at: .start + .minutes(1), now: Self.later)
        try await store.notify(.emailDisabled(nil), "mail", at: .start + .minutes(1), now: Self.later)
        // An answer about the token keeps nobody: the tokens of a wrong import are those that Apple rejects.
        try await store.reject("rejected", at: Self.later)
        let result = try await undo(at: Self.later + .hours(1))
        #expect(result.removed == 2 && result.stayed == 4)
        #expect(try await users() == ["first", "mail", "new", "old"])
        #expect(try await store.column("SELECT state FROM user_state WHERE user_id = 'new'") == ["revoked"])
    }

    @Test func aRequestToRevokeKeepsTheUser() async throws {
        try await store.requestRevocation("answered", at: .start - .hours(1))
        try await store.settleRequests(at: .start)
        #expect(try await store.count("revocation_log") == 1)
        try await tell(["answered", "waits", "opened", "none"].map { Self.signIn($0) }, settledAt: .start)
        try await store.requestRevocation("opened", at: Self.later)
        try await store.settleRequests(at: Self.later)
        try await store.requestRevocation("waits", at: Self.later)
        let result = try await undo()
        #expect(result.removed == 1 && result.stayed == 3)
        #expect(try await store.count("revocation") == 1)
        #expect(try await users() == ["answered", "opened", "waits"])
    }

    /// A wrong `--client-id`: the users are known at the right client.
    @Test func theOtherClientOfTheUserStays() async throws {
        try await store.signIn("ann", token: "a", email: EmailAddress("mine@example.com"), at: .start + .minutes(1))
        try await tell([Self.signIn("ann", client: "web")], settledAt: Self.later)
        #expect(try await undo().removed == 1)
        let left = try await store.rows("SELECT client_id, state, email FROM credential_state")
        #expect(left == [["app", "authorized", "mine@example.com"]])
        #expect(try await store.rows("SELECT state, count FROM credential_count WHERE count <> 0") == [["authorized", 1]])
    }

    @Test func anotherImportOfTheUserKeepsIt() async throws {
        try await imported("ann", "bob")
        try await tell([Self.signIn("ann")], as: "two", settledAt: Self.later)
        let result = try await undo()
        #expect(result.removed == 1 && result.stayed == 1)
        let other = try await undo("two")
        #expect(other.removed == 0 && other.stayed == 1)
    }
}
