// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTables
import CredentialTesting
import GRDB
import Testing

@testable import SQLiteStore

/// What happens to users, and what the tables say of it.
extension Monitor {
    func grant(_ user: String, client: String = clients[0], token: String? = "token", at time: Timestamp? = nil) async throws {
        let insert = "INSERT INTO grant_queue (client_id, user_id, refresh_token, granted_at) VALUES (?, ?, ?, ?)"
        try await execute(insert, [client, user, token.map { "\($0)-of-\(user)" }, (time ?? clock.now).milliseconds])
    }

    /// Signs a user in and settles the grant.
    ///
    /// - Parameter isAccepted: whether Apple accepts the user's tokens, at the time of their sign-ins.
    func signIn(
        _ user: String,
        client: String = clients[0],
        token: String? = "token",
        at time: Timestamp? = nil,
        isAccepted: Bool = false
    ) async throws {
        try await grant(user, client: client, token: token, at: time)
        try await settle(grantHandler)
        if isAccepted { try await accept(user) }
    }

    func code(
        _ code: String = "c",
        _ user: String? = nil,
        client: String = clients[0],
        nonce: String? = nil,
        at time: Timestamp? = nil
    ) async throws {
        let insert = "INSERT INTO grant_queue (client_id, user_id, authorization_code, nonce, granted_at) VALUES (?, ?, ?, ?, ?)"
        try await execute(insert, [client, user, code, nonce, (time ?? clock.now).milliseconds])
    }

    func signIn(
        code: String = "c",
        _ user: String? = nil,
        client: String = clients[0],
        nonce: String? = nil,
        at time: Timestamp? = nil,
        by handler: CodeHandler? = nil
    ) async throws {
        try await self.code(code, user, client: client, nonce: nonce, at: time)
        try await settle(handler ?? codeHandler)
    }

    /// Signs in `user1`, `user2` and so on, and settles the grants together.
    func signIn(users: ClosedRange<Int>) async throws {
        for user in users { try await grant("user\(user)") }
        try await settle(grantHandler)
    }

    func revoke(_ user: String) async throws {
        try await requestRevocation(user)
        try await settle(revocationHandler)
    }

    /// Deletes the account of a user who signed in a minute ago.
    ///
    /// - Parameter answers: Apple's answers about all tokens from now on.
    func delete(
        _ user: String,
        clients: [String] = [clients[0]],
        answers: EndpointAnswer<RefreshNews>...,
        isSettled: Bool = false
    ) async throws {
        if !answers.isEmpty { endpoint.answer(answers) }
        for client in clients { try await signIn(user, client: client, token: "r-\(client)") }
        try await accept(user)
        clock.advance(by: .minutes(1))
        try await requestRevocation(user)
        if isSettled { try await settle(revocationHandler) }
    }

    func hear(_ payload: String) async throws {
        try await notify(payload)
        try await settle(notificationHandler)
    }

    func requestRevocation(_ user: String, client: String = clients[0], at time: Timestamp? = nil) async throws {
        let insert = "INSERT INTO revocation_queue (client_id, user_id, requested_at) VALUES (?, ?, ?)"
        try await execute(insert, [client, user, (time ?? clock.now).milliseconds])
    }

    /// The outcomes of sign-ins, in order, such as `rejected code_used`.
    func grantLog() async throws -> [String] { try await outcomes(in: "grant_log") }

    /// The outcomes of revocations, in order, such as `rejected poison`.
    func revocationLog() async throws -> [String] { try await outcomes(in: "revocation_log") }

    private func outcomes(in log: String) async throws -> [String] {
        try await store.writer.read { db in
            try String.fetchAll(db, sql: "SELECT outcome || COALESCE(' ' || reason, '') FROM \(log) ORDER BY id")
        }
    }

    func accept(_ user: String) async throws {
        let update = "UPDATE credential SET verified_at = token_granted_at, verified_team = ? WHERE user_id = ?"
        try await execute(update, [ScriptedTokenEndpoint.teamID, user])
    }

    func notify(_ payload: String) async throws {
        try await execute("INSERT INTO notification_queue (payload, received_at) VALUES (?, ?)", [payload, clock.now.milliseconds])
    }

    func execute(_ sql: String, _ arguments: StatementArguments = []) async throws {
        _ = try await store.writer.write { db in try db.execute(sql: sql, arguments: arguments) }
    }

    func value<Value: DatabaseValueConvertible & Sendable>(_ sql: String, _ arguments: StatementArguments = []) async throws -> Value? {
        try await store.writer.read { db in try Value.fetchOne(db, sql: sql, arguments: arguments) }
    }

    func count(_ sql: String, _ arguments: StatementArguments = []) async throws -> Int { try await value(sql, arguments) ?? 0 }

    /// State and reason as backends read them, such as `revoked consent_revoked`.
    func state(of user: String, client: String = clients[0]) async throws -> String? {
        try await value("SELECT state || ' ' || reason FROM credential_state WHERE user_id = ? AND client_id = ?", [user, client])
    }

    func due(_ user: String) async throws -> Timestamp? {
        let due: Int64? = try await value("SELECT due_at FROM credential WHERE user_id = ?", [user])
        return due.map(Timestamp.init(milliseconds:))
    }

    // MARK: Rejections

    static let settleTime = Duration.seconds(900)

    /// Signs in a user whose token Apple has accepted and rejects from now on.
    func signInRejected(_ user: String) async throws {
        endpoint.answer(.rejected, for: user)
        try await signIn(user, isAccepted: true)
    }

    /// Apple rejects ann's token, and not another user's.
    ///
    /// - Returns: when siwatch asked about ann.
    func rejectAnn(beside other: String) async throws -> Timestamp {
        try await signIn(other)
        try await day()
        try await signInRejected("ann")
        clock.advance(by: .seconds(1))
        try await check("ann")
        return try #require(endpoint.calls.last { $0.credential.userID == "ann" }?.sentAt)
    }

    /// Apple rejects ann's token among good answers about others, five seconds apart.
    ///
    /// - Returns: when siwatch asked about ann.
    func rejectAnn(among others: Int) async throws -> Timestamp {
        endpoint.answer(.rejected, for: "ann")
        // Imported, so that their own first checks come hours later.
        let longAgo = clock.now.advanced(by: .seconds(-200_000))
        try await signIn("ann", at: longAgo, isAccepted: true)
        for user in 1...others { try await grant("user\(user)", at: longAgo) }
        try await settle(grantHandler)
        for user in 1...others { try await accept("user\(user)") }
        for user in 1...others {
            if user == others / 2 { try await check("ann") }
            clock.advance(by: .seconds(5))
            try await check("user\(user)")
        }
        return try #require(endpoint.calls.last { $0.credential.userID == "ann" }?.sentAt)
    }

    func repeatAnn(beside other: String) async throws {
        clock.advance(by: policy.repetition / 2)
        try await check(other)
        try await settle(refreshHandler, after: policy.repetition / 2)
    }

    func check(_ user: String) async throws {
        try await execute("UPDATE credential SET due_at = ? WHERE user_id = ?", [clock.now.milliseconds, user])
        try await settle(refreshHandler)
    }

    func openBreaker(users: Int) async throws {
        for user in 1...users { try await grant("user\(user)") }
        try await signIn("good")
        try await execute("UPDATE credential SET verified_at = token_granted_at, verified_team = 'TESTTEAM01'")
        endpoint.answer(.valid, for: "good")
        endpoint.answer(.rejected)
        try await day()
        for _ in 1...30 where try await !isBreakerOpen { try await day() }
        #expect(try await self.isBreakerOpen)
        clock.advance(by: .seconds(91_000))
    }

    var isBreakerOpen: Bool { get async throws { try await storedBreaker?.isOpen ?? false } }

    func pending() async throws -> Int {
        let counted = try await count("SELECT COUNT(*) FROM credential WHERE pending_since IS NOT NULL")
        telemetry.observe(try await store.overview(Overview.Question(at: clock.now)))
        let gauge = self.gauge("siwatch_credentials_pending")
        #expect(gauge == Double(counted), "the count is kept")
        return counted
    }

    /// Every answer counts, believed or not.
    func expectADayBetweenAnswers(of user: String? = nil) throws {
        let calls = endpoint.calls.filter { user.map($0.credential.userID.elementsEqual) ?? true }
        for (credential, calls) in Dictionary(grouping: calls, by: \.credential) {
            let times = calls.map(\.sentAt).sorted()
            for (one, next) in zip(times, times.dropFirst()) { #expect(one.duration(to: next) >= .seconds(86_400), "\(credential.userID)") }
        }
    }

    func twoDays(beside other: String) async throws {
        try await day()
        try await repeatAnn(beside: other)
    }
}
