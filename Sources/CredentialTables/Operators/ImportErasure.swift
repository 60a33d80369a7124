// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Undoes one batch of an import in one transaction: the credentials that only the import has told go, with every row about them.
///
/// siwatch remembers no pseudonym of them. What goes is no fact, so a right import may tell the same times. It tells no change of them,
/// because a backend would end the sessions of users that it knows; it tells again an end that the import had hidden at another client.
///
/// It takes its locks in the order of the settlements: rows of the queue, users, and last the tail.
struct ImportErasure<Connection: TableConnection> {
    let connection: Connection
    let undo: ImportUndo
    let now: Timestamp

    func carryOut() throws -> ImportUndo.Result {
        var result = ImportUndo.Result()
        result.erased = try connection.erasedSignIns()
        guard undo.isRehearsal || result.erased == undo.erasedBefore else {
            result.isOutdated = true
            return result
        }
        guard let ledger = try lockLedger(), !ledger.rows.isEmpty else { return result }
        let rows = try JSONText.encode(ledger.rows)
        let names = Set(try connection.importedNames(rows).filter { $0.userID != nil })
        let directory = try ClientDirectory(connection)
        let users = try JSONText.encode(Set(names.compactMap { $0.userID }).sorted())
        let waiting = try lockWaiting(of: users)
        let ids = Set(names.compactMap { directory.user($0) })
        let people = try connection.users(ids.sorted { $0.userID < $1.userID }, in: directory)
        // Somebody has erased the row of a user while this waited for its lock.
        guard people.count == ids.count else { throw StoreError.retry("a user was forgotten meanwhile") }

        // Every settlement about these users is committed now, and no other one is until this transaction ends.
        let logged = try loggedGrants(rows, of: users)
        let isForeign = (waiting + logged).contains { !ledger.contains($0.grantID) }
        let ledgers = ImportLedgers(try isForeign ? allLedgers() : [ledger])
        let told = try evidence(for: names, waiting + logged, ledgers, of: users, in: directory)

        var leaving = Leaving()
        leaving.waiting = waiting.filter { row in !row.isClaimed && ledgers.contains(row.grantID) }.map { $0.id }
        let claimed = Set(waiting.filter { $0.isClaimed && ledger.contains($0.grantID) }.map { $0.name })
        for (name, found) in told {
            guard found.first.map({ ledger.contains($0) }) ?? false else {
                // Another batch decides about the credential, and may have done so before this row came.
                if claimed.contains(name) { result.claimed += 1 }
                continue
            }
            let user = directory.user(name).flatMap { people[$0] }
            switch found.credential.verdict(on: user?[name.clientID], under: user?.registers ?? AppUser()) {
            case .remove:
                leaving.logged += found.logged
                guard let user, user[name.clientID] != nil else { continue }
                result.removed += 1
                leaving.credentials[user.id, default: []].insert(name.clientID)
            case .keep(let reason): result.kept[reason.rawValue, default: 0] += 1
            case .wait: result.claimed += 1
            case .nothing: break
            }
        }
        // A rehearsal leaves the rows of other batches to these.
        result.taken = undo.isRehearsal ? leaving.waiting.count(where: { ledger.contains($0) }) : leaving.waiting.count
        if !undo.isRehearsal {
            try erase(leaving, in: directory)
            if !leaving.logged.isEmpty { result.newestGrant = Int64(try connection.fetchInt("SELECT MAX(id) FROM grant_log")) }
            result.erased += Int64(leaving.logged.count)
            try closeLedger(rows)
        }
        // A server has made a row for each user, to lock it.
        try eraseRegisters(of: people, undo.isRehearsal ? [:] : leaving.credentials, in: directory)
        if !undo.isRehearsal { try count(leaving, people, in: directory) }
        return result
    }

    /// What a transaction erases.
    private struct Leaving {
        /// Rows of `grant_queue`.
        var waiting: [Int64] = []
        /// Rows of `grant_log`.
        var logged: [Int64] = []
        /// By user, the clients.
        var credentials: [AppUserID: Set<String>] = [:]
    }

    // MARK: The ledgers

    /// The lock keeps the upkeep from pruning the logs under this transaction, because it forgets the ledgers first.
    private func lockLedger() throws -> ImportLedger? {
        try connection.fetchOne(
            "SELECT digest FROM request_key WHERE client = $1 AND key = $2 \(connection.dialect.forUpdate)",
            ImportLedger.owner(of: undo.importID),
            "\(undo.batch)"
        ).map { ImportLedger($0, at: 0) }
    }

    private func allLedgers() throws -> [ImportLedger] {
        try connection.fetchAll("SELECT digest FROM request_key WHERE client = $1", ImportLedger.owner(of: undo.importID))
            .map { ImportLedger($0, at: 0) }
    }

    /// Lets the same file be imported again. Empties the ledger once no row of the batch is left.
    private func closeLedger(_ rows: String) throws {
        try connection.execute("DELETE FROM request_key WHERE client = $1", ImportBatch.owner(of: undo.importID))
        guard try connection.importedNames(rows).isEmpty else { return }
        try connection.execute(
            "UPDATE request_key SET digest = $3 WHERE client = $1 AND key = $2",
            ImportLedger.owner(of: undo.importID),
            "\(undo.batch)",
            Array(try JSONText.encode(ImportLedger()).utf8)
        )
    }

    // MARK: Erasing

    private func erase(_ leaving: Leaving, in directory: ClientDirectory) throws {
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
    private func eraseRegisters(
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
    private func count(_ leaving: Leaving, _ people: [AppUserID: UserRecord], in directory: ClientDirectory) throws {
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
                try connection.execute(
                    """
                    INSERT INTO credential_change
                           (app, client_id, user_id, kind, from_state, to_state, reason, source, occurred_at, recorded_at)
                    VALUES ($1, $2, $3, 'state', $4, $5, $6, $7, $8, $9)
                    """,
                    id.app,
                    holding.clientID,
                    id.userID,
                    standing.state.rawValue,
                    standing.state.rawValue,
                    standing.reason.rawValue,
                    source.rawValue,
                    since,
                    now
                )
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

extension ClientDirectory {
    /// The user of a credential in the app of its client; nil if siwatch does not know the client.
    func user(_ name: CredentialName) -> AppUserID? {
        guard let app = appNames[name.clientID], let userID = name.userID else { return nil }
        return AppUserID(app: app, userID: userID)
    }
}
