// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import DaemonHarness
import Foundation
import GRDB
import Testing

@testable import SQLiteStore

/// After siwatch has taken a row and swept the files, no file holds its clear token.
@Suite struct ErasureTests {
    private static let mark = "in-clear"

    private func leaks(_ file: TemporaryFile) throws -> [String] {
        try file.contents().filter { $0.value.firstRange(of: Data(Self.mark.utf8)) != nil }.keys.sorted()
    }

    private func token(_ number: Int) -> String { "r.\(Self.mark).\(number)." + String(repeating: "x", count: number % 100) }

    @Test func noTokenIsLeft() async throws {
        let file = try FileUnderTest()
        for number in 0..<300 { try await file.store.grant("user\(number)", token: token(number)) }
        #expect(try leaks(file.file).isEmpty == false)
        while try await !file.store.settleGrants(at: .start).isEmpty {}
        try await file.sqlite.maintain(at: .start)
        #expect(try leaks(file.file) == [])
        #expect(try await file.store.sealedTokens == 300)
    }

    @Test func norOneThatWasMalformed() async throws {
        let file = try FileUnderTest()
        try await file.store.grant(token: token(1) + String(repeating: "x", count: 9000))
        try await file.store.settleGrants(at: .start)
        try await file.sqlite.maintain(at: .start)
        #expect(try leaks(file.file) == [])
    }

    /// Killed after the process took the token and before it emptied the log.
    @Test func norOneThatAKilledProcessTook() async throws {
        let file = try FileUnderTest()
        try await file.store.signIn(token: token(1))
        let next = try FileUnderTest(file.file.copy())
        try await next.sqlite.maintain(at: .start)
        #expect(try leaks(next.file) == [])
    }

    @Test func aSealedTokenGoesToo() async throws {
        let file = try FileUnderTest()
        try await file.store.signIn(token: "r")
        try await file.sqlite.maintain(at: .start)
        let sealed = Data("sealed\0app\0user".utf8)
        #expect(try file.file.contents().values.contains { $0.firstRange(of: sealed) != nil })
        try await file.store.notify(.consentRevoked, at: .start + .hours(1))
        try await file.sqlite.maintain(at: .start + .hours(1))
        #expect(try file.file.contents().values.allSatisfy { $0.firstRange(of: sealed) == nil })
    }

    /// Pages are merged where many users go, and no piece of a moved row stays behind.
    @Test func norAForgottenUser() async throws {
        let file = try FileUnderTest()
        func user(_ number: Int) -> String { "\(number.isMultiple(of: 2) ? Self.mark : "other").\(number).0042" }
        for number in 0..<300 {
            try await file.store.grant(user(number), token: "r\(number)", email: EmailAddress("\(user(number))@example.com"))
        }
        while try await !file.store.settleGrants(at: .start).isEmpty {}
        #expect(try leaks(file.file).isEmpty == false)
        for number in 0..<300 where number.isMultiple(of: 2) {
            _ = try await file.store.forget(user(number), evenIfAuthorized: true)
        }
        #expect(try leaks(file.file) == [])
        #expect(try await file.store.count("user_state") == 150)
    }

    /// What an operator has asked for waits for a reader who is soon done.
    @Test func aShortReadDoesNotKeepAForgottenUserReadable() async throws {
        let file = try FileUnderTest()
        try await file.store.signIn(token: token(1))
        let reader = try OpenTransaction(.deferred, at: file.file.path)
        async let forgotten = file.store.forget(evenIfAuthorized: true)
        try await eventually { try await file.store.count("user_state") == 0 }
        try reader.end()
        _ = try await forgotten
        #expect(try leaks(file.file) == [])
    }

    /// A reader in the way delays the sweep until later.
    @Test func whatCouldNotBeSweptIsSweptTheNextTime() async throws {
        let file = try FileUnderTest()
        let reader = try OpenTransaction(.deferred, at: file.file.path)
        try await file.store.signIn(token: token(1))
        try await file.sqlite.maintain(at: .start)
        #expect(try leaks(file.file).isEmpty == false)
        try reader.end()
        try await file.sqlite.maintain(at: .start)
        #expect(try leaks(file.file) == [])
    }

    /// siwatch knows since when, for as long as the reader reads.
    @Test func whoKeepsItReadableIsNoticed() async throws {
        let file = try FileUnderTest()
        try await file.sqlite.maintain(at: .start)
        #expect(file.sqlite.logPinnedSince == nil)
        let reader = try OpenTransaction(.deferred, at: file.file.path)
        try await file.store.signIn(token: token(1))
        for minute in 1...3 {
            try await file.sqlite.maintain(at: .start + .minutes(minute))
            #expect(file.sqlite.logPinnedSince == .start + .minutes(1))
        }
        #expect(try leaks(file.file).isEmpty == false)
        try reader.end()
        try await file.sqlite.maintain(at: .start + .minutes(4))
        #expect(file.sqlite.logPinnedSince == nil)
        #expect(try leaks(file.file) == [])
    }

    /// A reader of a log without erased rows keeps no secret. siwatch empties that log once a day as well.
    @Test func aReaderOfAnythingElseIsNone() async throws {
        let file = try FileUnderTest()
        try await file.sqlite.maintain(at: .start)
        let reader = try OpenTransaction(.deferred, at: file.file.path)
        try await file.store.receive()
        for day in 1...3 {
            try await file.sqlite.maintain(at: .start + .days(day))
            #expect(file.sqlite.logPinnedSince == nil)
        }
        try reader.end()
    }
}
