// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialTesting
import Testing

/// Which tokens siwatch asks about, and what it knows of their users then.
@Suite(.eachStore, .timeLimit(.minutes(10))) struct RevocationClaimTests: RevocationSuite {
    @Test func aPausedAppIsAskedNothing() async throws {
        try await open(clients: "app")
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now) == ["example": 1])
        _ = try await store.ask(.pause(app: "example"), at: Self.now)
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now).isEmpty)
        #expect(try await claimTokens().isEmpty)
        _ = try await store.ask(.resume(app: "example"), at: Self.now)
        #expect(try await claimTokens().count == 1)
    }

    @Test func eachAppHasItsPermits() async throws {
        for user in ["a", "b", "c"] { try await open(user, clients: "app") }
        try await store.signIn("d", client: "elsewhere", token: "r")
        try await store.requestRevocation("d", client: "elsewhere", at: Self.asked)
        try await store.settleRequests(at: Self.now)
        #expect(try await store.ports.dueRevocations(upTo: 2, at: Self.now) == ["example": 2, "other": 1])
        #expect(try await claimTokens(permits: ["example": 2]).count == 2)
        #expect(try await claimTokens(permits: ["example": 2]).count == 1)
        #expect(try await claimTokens(permits: ["other": 0]).isEmpty)
    }

    @Test func eachClientHasItsQuota() async throws {
        for user in ["a", "b"] { try await open(user, clients: "web") }
        try await open("c", clients: "app")
        func due(_ quotas: [String: Int]) async throws -> Int {
            try await store.ports.dueRevocations(upTo: 10, at: Self.now, trusted: Self.now, quotas: quotas)["example"] ?? 0
        }
        func claim(_ quotas: [String: Int]) async throws -> [String] {
            try await store.claimRevocations(at: Self.now, quotas: quotas).map(\.id.userID)
        }
        #expect(try await due([:]) == 3)
        #expect(try await due(["web": 0]) == 1)
        #expect(try await due(["web": 1]) == 2)
        #expect(try await due(["web": 0, "app": 0]) == 0)
        #expect(try await claim(["web": 0]) == ["c"])
        #expect(try await claim(["web": 0]).isEmpty)
        #expect(try await claim(["web": 1]).count == 1)
        #expect(try await claim([:]).count == 1)
    }

    @Test func aClientThatWasTakenOutHoldsUpNobody() async throws {
        try await open("first", clients: "web")
        try await open("second", clients: "app")
        try store.register("example", ["app"])
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now) == ["example": 1])
        #expect(try await claimTokens(permits: ["example": 1]).map(\.id.userID) == ["second"])
        try store.register("example", ["app", "web"])
        #expect(try await claimTokens(permits: ["example": 1]).map(\.id.userID) == ["first"])
    }

    /// So that the backend learns of it at last. The request may be told late, or held for weeks.
    @Test func aClientThatStaysAwayIsGivenUpAfterAWeek() async throws {
        let opened = Self.asked + .days(30)
        try await open(clients: "web", at: opened)
        try store.register("example", ["app"])
        // Apple is not asked about them, so an operator's pause holds none.
        try await store.run("UPDATE app SET paused_at = ?", [.at(opened)])
        let week = opened + .days(7)
        func due(at time: Timestamp, trusted: Timestamp?) async throws -> [String: Int] {
            try await store.ports.dueRevocations(upTo: 10, at: time, trusted: trusted, quotas: [:])
        }
        #expect(try await due(at: week + .milliseconds(-1), trusted: week + .milliseconds(-1)).isEmpty)
        #expect(try await due(at: week, trusted: nil).isEmpty, "the clock may be ahead")
        #expect(try await claimTokens(at: week + .milliseconds(-1)).isEmpty)
        #expect(try await store.claimRevocations(at: week, isTrusted: false).isEmpty)
        #expect(try await due(at: week, trusted: week) == ["example": 1])
        let work = try await claimTokens(at: week)[0]
        #expect(try await store.settle(.revocation(work, .rejected(.unknownClient)), at: week) == .revocation(.rejected, .unknownClient))
        #expect(try await store.rows("SELECT reason FROM revocation_log") == [["unknown_client"]])
    }

    @Test func aSuspectComesAlone() async throws {
        try await open("suspect", clients: "app")
        var now = Self.now
        for _ in 1...2 {
            _ = try await claimTokens(at: now)
            now = try store.restart(at: now)
        }
        try await open("other", clients: "app", at: now)
        #expect(try await claimTokens(at: now).map(\.id.userID) == ["suspect"])
        #expect(try await claimTokens(at: now).map(\.id.userID) == ["other"])
    }

    /// Known or waiting, with a code too, at any client of the app.
    @Test(arguments: ["known", "waiting", "code", "elsewhere", "older"]) func knowsWhoHasSignedInAgain(_ how: String) async throws {
        try await open(clients: "app")
        switch how {
        case "known": try await store.signIn(client: "web", at: Self.now)
        case "waiting": try await store.grant(client: "web", token: "r", at: Self.now)
        case "code": try await store.grant("user", client: "web", code: "c", at: Self.now)
        case "elsewhere": try await store.signIn(client: "elsewhere", at: Self.now)
        default: try await store.grant("user", client: "web", code: "c", at: Self.asked)
        }
        let expected: [String: NewerSignIn] = ["known": .known, "waiting": .possible, "code": .possible]
        #expect(try await claimTokens()[0].newerSignIn == expected[how] ?? .none)
    }

    @Test func aProofWaitsForASignInThatIsDatedAhead() async throws {
        try await open(clients: "app")
        let ahead = Self.now + .hours(2)
        try await store.grant(client: "web", token: "ahead", at: ahead)
        #expect(try await store.settleGrants(at: Self.now) { _ in .inFuture(due: ahead, lookedAt: Self.now) } == [.postponed])
        #expect(try await claimTokens()[0].newerSignIn == .possible)
    }

    /// By Apple's clock, because the backend's was ahead.
    @Test func aSignInAfterAppleWasAskedIsNewer() async throws {
        try await store.signIn(token: "r")
        try await store.requestRevocation(at: Self.asked + .hours(1))
        try await store.settleRequests(at: Self.now)
        _ = try await store.settle(.revocation(try await claimTokens()[0], answer(.accepted)), at: Self.now)
        try await store.signIn(client: "web", at: Self.now + .minutes(10))
        #expect(try await claimTokens(at: Self.now + .minutes(10))[0].newerSignIn == .known)
    }

    /// The clock was days ahead when siwatch put it off.
    @Test func aClockThatWasSetBackStallsNothing() async throws {
        try await open(clients: "app")
        let ahead = Self.now + .days(3)
        let work = try await claimTokens(at: ahead)[0]
        _ = try await store.settle(.revocation(work, .failed(at: ahead)), at: ahead)
        #expect(try await store.ports.dueRevocations(upTo: 10, at: Self.now) == ["example": 1])
        #expect(try await claimTokens().count == 1)
    }
}
