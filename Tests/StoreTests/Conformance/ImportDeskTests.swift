// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialTesting
import Testing

@testable import CredentialCore

@Suite(.eachStore, .timeLimit(.minutes(10))) struct ImportDeskTests: ConformanceSuite {
    private static func signIn(_ user: String, client: String = "app", token: String? = nil, at time: Timestamp = .start) -> ToldSignIn {
        ToldSignIn(clientID: client, userID: user, proof: token.map { .refreshToken(Secret($0)) }, signedInAt: time)
    }

    private static func batch(_ key: String, _ signIns: [ToldSignIn]) -> ImportBatch {
        ImportBatch(importID: "one", key: key, signIns: signIns)
    }

    @Test func aBatchIsToldOnceInADay() async throws {
        let address = EmailAddress("é\"@example.com", isPrivate: false)
        var ann = Self.signIn("ann", token: #"r\"1"#)
        ann.address = address
        let batch = Self.batch("a", [ann, Self.signIn("bob", client: "web", at: .start - .days(900))])
        #expect(try await store.ports.append(batch, at: .start) == ToldBatch(rows: [1, 2], isKnown: false))
        #expect(try await store.ports.append(batch, at: .start) == ToldBatch(rows: [1, 2], isKnown: true))
        let columns = "client_id, user_id, refresh_token, email, email_is_private, granted_at, due_at, import_id"
        #expect(
            try await store.rows("SELECT \(columns) FROM grant_queue ORDER BY id") == [
                ["app", "ann", #"r\"1"#, "é\"@example.com", 0, .at(.start), 0, 1],
                ["web", "bob", nil, nil, nil, .at(.start - .days(900)), 0, 1],
            ]
        )
        #expect(try await store.ports.toldImports() == [ToldImport(importID: "one", signIns: 2, from: .start, to: .start)])
        try await store.ports.forget(at: .start + .days(1), naming: PlainSealer())
        #expect(try await store.ports.append(batch, at: .start)?.isKnown == true)
        try await store.ports.forget(at: .start + .days(1) + .milliseconds(1), naming: PlainSealer())
        let later = Timestamp.start + .days(1)
        #expect(try await store.ports.append(batch, at: later) == ToldBatch(rows: [3, 4], isKnown: false))
        #expect(try await store.ports.toldImports() == [ToldImport(importID: "one", signIns: 4, from: .start, to: later)])
    }

    @Test func retoldRowsAreCounted() async throws {
        try await store.signIn("ann", token: "r", at: .start - .days(1))
        let told = try await store.ports.append(Self.batch("a", [Self.signIn("ann", token: "r"), Self.signIn("bob")]), at: .start)
        try await store.settleGrants(at: .start)
        #expect(try await store.ports.retoldSignIns(among: try #require(told).rows) == 1)
    }

    @Test func theAnswersAreThoseOfTheTokens() async throws {
        _ = try await store.ports.append(Self.batch("a", [Self.signIn("ann", token: "r")]), at: .start)
        let asked = [CredentialID(clientID: "app", userID: "ann"), CredentialID(clientID: "web", userID: "ann")]
        #expect(try await store.ports.importedTokens(of: asked) == [nil, nil])
        try await store.settleGrants(at: .start)
        let unasked = ImportedToken(grantedAt: .start, answer: nil, hasFailed: false)
        #expect(try await store.ports.importedTokens(of: asked) == [unasked, nil])
        try await store.reject("ann", at: .start + .hours(1))
        #expect(try await store.ports.importedTokens(of: asked)[0]?.answer == .rejected)
    }

    @Test func aCredentialWithoutATokenHasNoAnswer() async throws {
        _ = try await store.ports.append(Self.batch("a", [Self.signIn("ann")]), at: .start)
        try await store.settleGrants(at: .start)
        #expect(try await store.count("credential") == 1)
        #expect(try await store.ports.importedTokens(of: [CredentialID(clientID: "app", userID: "ann")]) == [nil])
    }
}
