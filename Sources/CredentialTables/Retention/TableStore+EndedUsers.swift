// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import NIOConcurrencyHelpers

/// Forgets users who have ended, or their addresses. It walks through all users again and again, a part in each call, so that no index has
/// to find the ended ones.
extension TableStore {
    /// Rows in a portion of the walk, and portions in a call. Ten million credentials take about three hours.
    private var usersAtOnce: Int { 2_000 }
    private var portions: Int { 25 }

    func forgetEndedUsers(at now: Timestamp, naming pseudonymizer: any UserPseudonymizer) async throws {
        let (userEnd, addressEnd) = (retention.endedUser, retention.address)
        guard userEnd != nil || addressEnd != nil else { return }
        let usersUntil = userEnd.map { now.advanced(by: .zero - $0) }
        let addressesUntil = addressEnd.map { now.advanced(by: .zero - $0) }
        var last = upkeep.withLockedValue(\.walkedUsers)
        for _ in 0..<portions {
            try Task.checkCancellation()
            let (ended, next) = try await query { [usersAtOnce, last] in try $0.endedUsers(after: last, upTo: usersAtOnce) }
            let toForget = ended.filter { isGreater(usersUntil, than: $0.endedAt) }.map(\.id)
            let toStrip = ended.filter { $0.hasAddress && isGreater(addressesUntil, than: $0.endedAt) }.map(\.id)
            if !toForget.isEmpty || !toStrip.isEmpty {
                try await transaction { [decisions] connection in
                    try connection.forget(toForget, naming: pseudonymizer, decisions)
                    try connection.eraseAddresses(of: toStrip.filter { !toForget.contains($0) })
                }
                tokenWasErased()
            }
            last = next ?? ""
            upkeep.withLockedValue { [last] in $0.walkedUsers = last }
            if next == nil { return }
        }
    }
}

private struct EndedUser: Sendable {
    var id: AppUserID
    var endedAt: Timestamp
    var hasAddress: Bool
}

extension TableConnection {
    /// - Returns: `next` is the last user that was seen whole; nil after the last user of all.
    fileprivate func endedUsers(after last: String, upTo limit: Int) throws -> (ended: [EndedUser], next: String?) {
        let endedAt = "COALESCE(c.changed_at, u.email_at, u.forwarding_at)"
        let rows = try fetchAll(
            """
            SELECT c.user_id, app.name, MAX(\(sql: endedAt)), MAX(u.email_at) IS NOT NULL, COUNT(*),
                   SUM(CASE WHEN c.state <> 'authorized' AND c.sealed_token IS NULL AND c.former_sealed IS NULL AND \(sql: endedAt) IS NOT NULL
                            THEN 0 ELSE 1 END)
              FROM (SELECT * FROM credential WHERE user_id > \(last) ORDER BY user_id, client LIMIT \(sql: limit)) AS c
              JOIN app ON app.id = c.app
              LEFT JOIN user_event u ON u.user_id = c.user_id AND u.app = c.app
             GROUP BY c.user_id, app.name ORDER BY c.user_id
            """
        )
        let isLast = rows.reduce(0) { $0 + $1.int(at: 4) } < limit
        // The next portion has the rest of a user who was cut off.
        let end = rows.last?.text(at: 0)
        let whole = isLast || rows.first?.text(at: 0) == end ? rows : rows.filter { $0.text(at: 0) != end }
        let ended = whole.filter { $0.int(at: 5) == 0 }.map {
            EndedUser(id: AppUserID(app: $0[1], userID: $0[0]), endedAt: $0[2], hasAddress: $0[3])
        }
        return (ended, isLast ? nil : whole.last?.text(at: 0))
    }

    /// Forgets users who have ended. Their logs stay for their own retention.
    fileprivate func forget(_ ids: [AppUserID], naming pseudonymizer: any UserPseudonymizer, _ decisions: DecisionBook) throws {
        let directory = try ClientDirectory(self)
        let users = try stillEnded(ids, in: directory)
        for user in users {
            try remember(user, as: pseudonymizer.pseudonym(of: user.id.userID), in: directory)
            let app = directory.app(user.id.app).id
            try execute("DELETE FROM credential WHERE user_id = \(user.id.userID) AND app = \(app)")
            try execute("DELETE FROM user_event WHERE user_id = \(user.id.userID) AND app = \(app)")
            try execute("DELETE FROM canary WHERE user_id = \(user.id.userID) AND client IN (SELECT id FROM client WHERE app = \(app))")
        }
        try uncount(users, in: directory, decisions)
    }

    fileprivate func eraseAddresses(of ids: [AppUserID]) throws {
        let directory = try ClientDirectory(self)
        var users = try stillEnded(ids, in: directory)
        for index in users.indices { users[index].registers.mailbox = nil }
        try save(users, tallies: [:], in: directory)
    }

    /// The users who are signed in nowhere, now that nobody changes them, and who have no waiting row.
    private func stillEnded(_ ids: [AppUserID], in directory: ClientDirectory) throws -> [UserRecord] {
        try users(ids.filter { directory.apps[$0.app] != nil }.sorted { $0.userID < $1.userID }, in: directory).values.filter { user in
            let hasWork = try StoredTable.ofUsers.filter(\.isQueue).contains { table in
                try exists("SELECT 1 FROM \(sql: table.name) WHERE \(table.isWaiting(for: user.id.userID, in: nil))")
            }
            return !hasWork && user.holdings.allSatisfy { $0.standing?.state != .authorized && !$0.record.holdsToken }
        }.sorted { $0.id.userID < $1.id.userID }
    }
}

extension CredentialRecord {
    fileprivate var holdsToken: Bool { credential.token?.sealed != nil || credential.formerToken?.sealed != nil }
}
