// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// After siwatch has taken a row and swept the files, no file holds its clear token.
@Suite(.eachStore, .on(.file)) struct ErasureTests: ConformanceSuite {
    private static let mark = "in-clear"

    private func leaks(in file: TemporaryFile? = nil) throws -> [String] {
        try (file ?? store.file).contents().filter { $0.value.firstRange(of: Data(Self.mark.utf8)) != nil }.keys.sorted()
    }

    private func token(_ number: Int) -> String { "r.\(Self.mark).\(number)." + String(repeating: "x", count: number % 100) }

    @Test func noTokenIsLeft() async throws {
        for number in 0..<300 { try await store.grant("user\(number)", token: token(number)) }
        #expect(try leaks().isEmpty == false)
        while try await !store.settleGrants(at: .start).isEmpty {}
        try await store.sqlite.maintain(at: .start)
        #expect(try leaks() == [])
        #expect(try await store.sealedTokens == 300)
    }

    @Test func norOneThatWasMalformed() async throws {
        try await store.grant(token: token(1) + String(repeating: "x", count: 9000))
        try await store.settleGrants(at: .start)
        try await store.sqlite.maintain(at: .start)
        #expect(try leaks() == [])
    }

    /// Killed after the process took the token and before it emptied the log.
    @Test func norOneThatAKilledProcessTook() async throws {
        try await store.signIn(token: token(1))
        let next = try StoreUnderTest(store.file.copy())
        try await next.sqlite.maintain(at: .start)
        #expect(try leaks(in: next.file) == [])
    }

    @Test func aSealedTokenGoesToo() async throws {
        try await store.signIn(token: "r")
        try await store.sqlite.maintain(at: .start)
        let sealed = Data("sealed\0app\0user".utf8)
        #expect(try store.file.contents().values.contains { $0.firstRange(of: sealed) != nil })
        try await store.notify(.consentRevoked, at: .start + .hours(1))
        try await store.sqlite.maintain(at: .start + .hours(1))
        #expect(try store.file.contents().values.allSatisfy { $0.firstRange(of: sealed) == nil })
    }

    /// Pages are merged where many users go, and no piece of a moved row stays behind.
    @Test func norAForgottenUser() async throws {
        func user(_ number: Int) -> String { "\(number.isMultiple(of: 2) ? Self.mark : "other").\(number).0042" }
        for number in 0..<300 {
            try await store.grant(user(number), token: "r\(number)", email: EmailAddress("\(user(number))@example.com"))
        }
        while try await !store.settleGrants(at: .start).isEmpty {}
        #expect(try leaks().isEmpty == false)
        for number in 0..<300 where number.isMultiple(of: 2) {
            _ = try await store.forget(user(number), evenIfAuthorized: true)
        }
        #expect(try leaks() == [])
        #expect(try await store.count("user_state") == 150)
    }

    /// What an operator has asked for waits for a reader who is soon done.
    @Test func aShortReadDoesNotKeepAForgottenUserReadable() async throws {
        try await store.signIn(token: token(1))
        let reader = try OpenTransaction(.deferred, at: store.file.path)
        async let forgotten = store.forget(evenIfAuthorized: true)
        try await eventually { try await store.count("user_state") == 0 }
        try reader.end()
        _ = try await forgotten
        #expect(try leaks() == [])
    }

    /// A reader in the way delays the sweep until later.
    @Test func whatCouldNotBeSweptIsSweptTheNextTime() async throws {
        let reader = try OpenTransaction(.deferred, at: store.file.path)
        try await store.signIn(token: token(1))
        try await store.sqlite.maintain(at: .start)
        #expect(try leaks().isEmpty == false)
        try reader.end()
        try await store.sqlite.maintain(at: .start)
        #expect(try leaks() == [])
    }

    /// siwatch knows since when, for as long as the reader reads.
    @Test func whoKeepsItReadableIsNoticed() async throws {
        try await store.sqlite.maintain(at: .start)
        #expect(store.sqlite.logPinnedSince == nil)
        let reader = try OpenTransaction(.deferred, at: store.file.path)
        try await store.signIn(token: token(1))
        for minute in 1...3 {
            try await store.sqlite.maintain(at: .start + .minutes(minute))
            #expect(store.sqlite.logPinnedSince == .start + .minutes(1))
        }
        #expect(try leaks().isEmpty == false)
        try reader.end()
        try await store.sqlite.maintain(at: .start + .minutes(4))
        #expect(store.sqlite.logPinnedSince == nil)
        #expect(try leaks() == [])
    }

    /// A reader of a log without erased rows keeps no secret. siwatch empties that log once a day as well.
    @Test func aReaderOfAnythingElseIsNone() async throws {
        try await store.sqlite.maintain(at: .start)
        let reader = try OpenTransaction(.deferred, at: store.file.path)
        try await store.receive()
        for day in 1...3 {
            try await store.sqlite.maintain(at: .start + .days(day))
            #expect(store.sqlite.logPinnedSince == nil)
        }
        try reader.end()
    }
}
