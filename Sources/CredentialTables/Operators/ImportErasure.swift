// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Takes back one portion of an import in one transaction: its waiting sign-ins, then the credentials that only the import has told of.
///
/// siwatch remembers no pseudonym of them, so a right import may tell the same times. It tells no change of them, because a backend would
/// end the sessions of users that it knows. It takes its locks in the order of the settlements.
struct ImportErasure<Connection: TableConnection> {
    let connection: Connection
    let decisions: DecisionBook
    let importID: String
    let now: Timestamp

    /// How many sign-ins or users one transaction takes back. Settlements wait only briefly for so few.
    private static var portion: Int { 500 }

    /// Which rows of `grant_queue` a daemon is settling.
    private var isClaimed: SQL { "g.claimed_by IS NOT NULL AND g.due_at > \(now)" }

    private func isWaiting(_ id: Int64) -> SQL { "g.import_id = \(id) AND (g.claimed_by IS NULL OR g.due_at <= \(now))" }

    /// Which rows of `credential` go. A request to revoke, or a row that waits and stays, keeps every credential of its user.
    private func isRemovable(_ id: Int64) -> SQL {
        """
        c.imported_by = \(id)
           AND NOT EXISTS (SELECT 1 FROM grant_queue g
                            WHERE g.user_id = c.user_id AND (g.import_id IS NULL OR g.import_id <> \(id) OR \(isClaimed)))
           AND NOT EXISTS (SELECT 1 FROM revocation_queue r WHERE r.user_id = c.user_id AND r.opened_at IS NULL)
           AND NOT EXISTS (SELECT 1 FROM revocation r WHERE r.user_id = c.user_id)
           AND NOT EXISTS (SELECT 1 FROM revocation_log r WHERE r.user_id = c.user_id)
        """
    }

    func rehearse() throws -> UndoneImport {
        var undone = UndoneImport()
        guard let (id, told) = try find() else { return undone }
        undone.removed = try connection.fetchInt("SELECT COUNT(*) FROM credential c WHERE \(isRemovable(id))")
        undone.taken = try connection.fetchInt("SELECT COUNT(*) FROM grant_queue g WHERE \(isWaiting(id))")
        undone.claimed = try countClaimed(id)
        undone.stayed = max(told - undone.removed - undone.taken - undone.claimed, 0)
        return undone
    }

    func carryOut() throws -> UndoneImport {
        var undone = UndoneImport()
        // A batch is appended under this lock. So it comes before the keys are forgotten, or not at all.
        guard let (id, told) = try find(connection.dialect.forUpdate) else { return undone }
        try connection.execute("DELETE FROM request_key WHERE client = \(ImportBatch.owner(of: importID))")
        undone.taken = try takeWaiting(id)
        var found = 0
        if undone.taken == 0 { (found, undone.removed) = try removeCredentials(id) }
        undone.isDone = undone.taken == 0 && found == 0
        undone.claimed = try countClaimed(id)
        let left = max(told - undone.taken - undone.removed, 0)
        undone.stayed = max(left - undone.claimed, 0)
        // The next import of this name begins anew.
        let isOver = undone.isDone && undone.claimed == 0
        try connection.execute("UPDATE import SET told = \(isOver ? 0 : left) WHERE id = \(id)")
        return undone
    }

    private func find(_ lock: SQL = "") throws -> (id: Int64, told: Int)? {
        try connection.fetchOne("SELECT id, told FROM import WHERE name = \(importID) \(lock)").map { ($0.integer(at: 0), $0.int(at: 1)) }
    }

    private func countClaimed(_ id: Int64) throws -> Int {
        try connection.fetchInt("SELECT COUNT(*) FROM grant_queue g WHERE g.import_id = \(id) AND \(isClaimed)")
    }

    private func takeWaiting(_ id: Int64) throws -> Int {
        let dialect = connection.dialect
        let rows = try connection.fetchAll(
            "SELECT g.id FROM grant_queue g WHERE \(isWaiting(id)) ORDER BY g.id LIMIT \(sql: Self.portion) \(dialect.forUpdate)"
        ).map { $0.integer(at: 0) }
        guard !rows.isEmpty else { return 0 }
        try connection.execute("DELETE FROM grant_queue WHERE \(try dialect.isOne("id", of: rows))")
        try connection.lockSettlements()
        try connection.add(rows.count, to: Queue.grant.removedCounter)
        return rows.count
    }

    // MARK: Credentials

    /// - Returns: how many users it has looked at, and how many credentials are gone.
    private func removeCredentials(_ id: Int64) throws -> (found: Int, removed: Int) {
        let directory = try ClientDirectory(connection)
        let removable = isRemovable(id)
        let found = try users(
            """
            c.user_id IN (SELECT DISTINCT c.user_id FROM credential c WHERE \(removable) ORDER BY c.user_id LIMIT \(sql: Self.portion))
               AND c.imported_by = \(id)
            """,
            directory
        )
        let people = try connection.users(found.sorted { $0.userID < $1.userID }, in: directory)
        // Somebody has erased the row of a user while this waited for its lock.
        guard people.count == found.count else { throw StoreError.retry("a user was forgotten meanwhile") }
        // Every settlement about these users is committed now, and no other one is until this transaction ends.
        let names = Set(found.map(\.userID)).sorted()
        let left = try users("\(removable) AND \(try connection.dialect.isOne("c.user_id", of: names))", directory)
        let going = people.values.filter { left.contains($0.id) }.sorted { ($0.id.userID, $0.id.app) < ($1.id.userID, $1.id.app) }
        guard !going.isEmpty else { return (found.count, 0) }
        for user in going { try remove(user.id, id, in: directory) }
        try connection.lockSettlements()
        for user in going { try tellHiddenEnds(of: user, id) }
        // Under the lock on the tail, because the count of missed notifications erases these rows under it.
        for table in ["canary", "admitted_rejection"] {
            try connection.execute(
                """
                DELETE FROM \(sql: table) WHERE \(try connection.dialect.isOne("user_id", of: names))
                   AND NOT EXISTS (SELECT 1 FROM credential c WHERE c.user_id = \(sql: table).user_id AND c.client = \(sql: table).client)
                """
            )
        }
        let parts = going.map { $0.part(of: id) }
        try connection.uncount(parts, in: directory, decisions)
        return (found.count, parts.reduce(0) { $0 + $1.holdings.count })
    }

    /// The users of these rows of `credential`, in the apps of the rows.
    private func users(_ condition: SQL, _ directory: ClientDirectory) throws -> Set<AppUserID> {
        let apps = Dictionary(uniqueKeysWithValues: directory.apps.values.map { ($0.id, $0.name) })
        let rows = try connection.fetchAll("SELECT DISTINCT c.user_id, c.app FROM credential c WHERE \(condition)")
        return Set(rows.compactMap { row in apps[row.integer(at: 1)].map { AppUserID(app: $0, userID: row.text(at: 0) ?? "") } })
    }

    /// The registers of the user go with the last credential. They hold at most an address of the import, because an event keeps the user.
    private func remove(_ user: AppUserID, _ id: Int64, in directory: ClientDirectory) throws {
        let app = directory.app(user.app).id
        try connection.execute("DELETE FROM credential WHERE user_id = \(user.userID) AND app = \(app) AND imported_by = \(id)")
        try connection.execute(
            """
            DELETE FROM user_event WHERE user_id = \(user.userID) AND app = \(app)
               AND NOT EXISTS (SELECT 1 FROM credential c WHERE c.user_id = user_event.user_id AND c.app = user_event.app)
            """
        )
    }

    /// Tells the end of a sign-in again if a credential of the import has hidden it: the user counted as signed in there, so a follower
    /// that heard of the end kept the session.
    private func tellHiddenEnds(of user: UserRecord, _ id: Int64) throws {
        let (gone, left) = (user.part(of: id).holdings, user.holdings.filter { $0.record.importedBy != id })
        guard gone.contains(where: { $0.standing?.state == .authorized }), !left.contains(where: { $0.standing?.state == .authorized })
        else { return }
        for holding in left {
            guard let standing = holding.standing, let source = standing.reason.source, let since = standing.since else { continue }
            let announcement = Announcement(
                app: user.id.app,
                credential: CredentialID(clientID: holding.clientID, userID: user.id.userID),
                change: .state(from: standing.state, to: standing.state, reason: standing.reason, occurredAt: since),
                source: source
            )
            try connection.execute(announcement.insert(at: now))
        }
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
