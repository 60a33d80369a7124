// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What goes, and what is told of it.
extension ImportErasure {
    func erase(_ leaving: Leaving, in directory: ClientDirectory) throws {
        let dialect = connection.dialect
        if !leaving.waiting.isEmpty {
            let rows = try JSONText.encode(leaving.waiting)
            try connection.execute("DELETE FROM grant_queue WHERE \(dialect.isOne("id", ofIntegers: "$1"))", rows)
        }
        for (id, clients) in leaving.credentials {
            for client in clients.compactMap({ directory.clients[$0]?.id }) {
                try connection.execute("DELETE FROM credential WHERE user_id = $1 AND client = $2", id.userID, client)
                try connection.execute("DELETE FROM canary WHERE user_id = $1 AND client = $2", id.userID, client)
            }
        }
        if !leaving.logged.isEmpty {
            let rows = try JSONText.encode(leaving.logged)
            try connection.execute("DELETE FROM grant_log WHERE \(dialect.isOne("id", ofIntegers: "$1"))", rows)
        }
    }

    /// Under the lock on the tail, because the count of missed notifications erases these rows under it.
    private func eraseAdmittedRejections(of leaving: Leaving, in directory: ClientDirectory) throws {
        let users = try JSONText.encode(Set(leaving.credentials.keys.map { $0.userID }).sorted())
        let rows = try connection.fetchAll(
            "SELECT id, user_id, client FROM admitted_rejection WHERE \(connection.dialect.isOne("user_id", ofTexts: "$1"))",
            users
        )
        for row in rows {
            guard let client = directory.clientsByID[row.integer(at: 2)], let userID = row.text(at: 1) else { continue }
            let id = AppUserID(app: client.app.name, userID: userID)
            guard leaving.credentials[id]?.contains(client.clientID) ?? false else { continue }
            try connection.execute("DELETE FROM admitted_rejection WHERE id = $1", row.integer(at: 0))
        }
    }

    /// Erases the registers of users who have no credential any more. Without an event of Apple's they hold at most the import's address.
    func eraseRegisters(
        of people: [AppUserID: UserRecord],
        _ removed: [AppUserID: Set<String>],
        in directory: ClientDirectory
    ) throws {
        for user in people.values {
            let clients = removed[user.id] ?? []
            guard user.holdings.allSatisfy({ clients.contains($0.clientID) }) else { continue }
            try connection.execute(
                """
                DELETE FROM user_event
                 WHERE user_id = $1 AND app = $2
                   AND COALESCE(consent_revoked_at, deleted_at, revoked_at, forwarding_at) IS NULL
                   AND (email_at IS NULL OR $3 AND email_rank = 0)
                   AND NOT EXISTS (SELECT 1 FROM credential c WHERE c.user_id = user_event.user_id AND c.app = user_event.app)
                """,
                user.id.userID,
                directory.app(user.id.app).id,
                !clients.isEmpty
            )
        }
    }

    /// Erases the changes of the credentials and takes the credentials out of the counts, under the lock on the tail.
    func count(_ leaving: Leaving, _ people: [AppUserID: UserRecord], in directory: ClientDirectory) throws {
        guard !leaving.credentials.isEmpty || !leaving.waiting.isEmpty || !leaving.logged.isEmpty else { return }
        // Nobody writes changes of users who are locked, so the search for them needs no lock on the tail.
        let told = try leaving.credentials.isEmpty ? [] : changes(of: leaving)
        try connection.lockSettlements()
        try connection.add(leaving.waiting.count, to: Queue.grant.removedCounter)
        try connection.add(leaving.logged.count, to: ImportUndo.erasedCounter)
        guard !leaving.credentials.isEmpty else { return }
        try eraseAdmittedRejections(of: leaving, in: directory)
        try erase(told)
        try tellHiddenEnds(leaving, people)
        var tallies: [String: UserRecord.Tally] = [:]
        for (id, clients) in leaving.credentials {
            guard let user = people[id] else { continue }
            tallies[id.app, default: UserRecord.Tally()].change(from: user.tally(at: clients), to: UserRecord.Tally())
        }
        try connection.save([], tallies: tallies, in: directory)
        var gone: [String: [CredentialState: Int]] = [:]
        for (id, clients) in leaving.credentials {
            for holding in people[id]?.holdings ?? [] where clients.contains(holding.clientID) {
                guard let state = holding.standing?.state else { continue }
                gone[id.app, default: [:]][state, default: 0] += 1
            }
        }
        for (app, states) in gone {
            for (state, count) in states {
                try connection.execute(
                    "UPDATE credential_count SET count = count - $3 WHERE app = $1 AND state = $2",
                    directory.app(app).id,
                    state.rawValue,
                    count
                )
            }
        }
    }

    /// Tells the end of a sign-in again if a credential of the import has hidden it: the user counted as signed in there, so a follower
    /// that heard of the end kept the session.
    private func tellHiddenEnds(_ leaving: Leaving, _ people: [AppUserID: UserRecord]) throws {
        for (id, clients) in leaving.credentials.sorted(by: { $0.key.userID < $1.key.userID }) {
            let holdings = people[id]?.holdings ?? []
            let left = holdings.filter { !clients.contains($0.clientID) }
            guard holdings.contains(where: { clients.contains($0.clientID) && $0.standing?.state == .authorized }),
                !left.contains(where: { $0.standing?.state == .authorized })
            else { continue }
            for holding in left {
                guard let standing = holding.standing, let source = standing.reason.source, let since = standing.since else { continue }
                let announcement = Announcement(
                    app: id.app,
                    credential: CredentialID(clientID: holding.clientID, userID: id.userID),
                    change: .state(from: standing.state, to: standing.state, reason: standing.reason, occurredAt: since),
                    source: source
                )
                try connection.execute(Announcement.insert, announcement.values(at: now))
            }
        }
    }

    /// The changes of the credentials, by their ids.
    private func changes(of leaving: Leaving) throws -> Set<Int64> {
        let users = try JSONText.encode(Set(leaving.credentials.keys.map { $0.userID }).sorted())
        return Set(
            try logged("id, app, client_id, user_id", .changes, of: users).compactMap { row -> Int64? in
                let id = AppUserID(app: row.text(at: 1) ?? "", userID: row.text(at: 3) ?? "")
                let isGone = leaving.credentials[id]?.contains(row.text(at: 2) ?? "") ?? false
                return isGone ? row.integer(at: 0) : nil
            }
        )
    }

    private func erase(_ ids: Set<Int64>) throws {
        guard !ids.isEmpty else { return }
        _ = try connection.forgetWebhooks(of: ids)
        // The newest row stays, so that a follower sees that older rows are gone.
        let newest = Int64(try connection.fetchInt("SELECT MAX(id) FROM credential_change"))
        try connection.execute(
            "DELETE FROM credential_change WHERE \(connection.dialect.isOne("id", ofIntegers: "$1"))",
            try JSONText.encode(ids.filter { $0 != newest }.sorted())
        )
        guard ids.contains(newest) else { return }
        try connection.execute(
            """
            UPDATE credential_change SET user_id = $2, email = NULL, email_forwarding = NULL, notification_jti = NULL WHERE id = $1
            """,
            newest,
            ImportUndo.nobody
        )
    }
}

extension StateReason {
    /// What tells of an end for this reason; nil if it is none.
    fileprivate var source: ChangeSource? {
        switch self {
        case .granted, .neverGranted: nil
        case .tokenRejected: .refresh
        case .consentRevoked, .accountDeleted: .notification
        case .revokedByApp: .revocation
        }
    }
}
