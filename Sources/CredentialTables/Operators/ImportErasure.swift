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
    struct Leaving {
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
}

extension ClientDirectory {
    /// The user of a credential in the app of its client; nil if siwatch does not know the client.
    func user(_ name: CredentialName) -> AppUserID? {
        guard let app = appNames[name.clientID], let userID = name.userID else { return nil }
        return AppUserID(app: app, userID: userID)
    }
}
