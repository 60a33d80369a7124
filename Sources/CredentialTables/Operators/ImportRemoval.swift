// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Takes back one batch of an import in one transaction: its rows that wait, and the credentials that it alone has made.
struct ImportRemoval<Connection: TableConnection> {
    let connection: Connection
    let importID: String

    /// - Parameter last: the key of the batch before; empty for the first one.
    func carryOut(after last: String) throws -> OperatorAnswer {
        let owner = ImportBatch.owner(of: importID)
        let batch = try connection.fetchOne(
            "SELECT key, digest FROM request_key WHERE client = $1 AND key > $2 ORDER BY key LIMIT 1 \(connection.dialect.forUpdate)",
            owner,
            last
        )
        guard let batch else { return .importUndone(ImportUndo()) }
        let key = batch.text(at: 0) ?? ""
        let ids = try JSONText.encode(ImportedRow.ids(batch.bytes(at: 1)))
        var undo = ImportUndo(key: key)
        try removeWaiting(ids, &undo)
        let directory = try ClientDirectory(connection)
        let gone = try removeSettled(ids, in: directory, &undo)
        // Last the tail, as in every transaction.
        try connection.lockSettlements()
        try connection.add(undo.removed, to: Queue.grant.removedCounter)
        try connection.uncount(gone, in: directory)
        if undo.busy == 0 { try connection.execute("DELETE FROM request_key WHERE client = $1 AND key = $2", owner, key) }
        return .importUndone(undo)
    }

    private func removeWaiting(_ ids: String, _ undo: inout ImportUndo) throws {
        let isOfBatch = connection.dialect.isOne("id", ofIntegers: "$1")
        undo.removed = try connection.change("DELETE FROM grant_queue WHERE \(isOfBatch) AND claimed_by IS NULL", ids)
        undo.busy = try connection.fetchInt("SELECT COUNT(*) FROM grant_queue WHERE \(isOfBatch)", ids)
    }

    /// - Returns: for each credential that is gone, its user with this credential alone.
    private func removeSettled(_ ids: String, in directory: ClientDirectory, _ undo: inout ImportUndo) throws -> [UserRecord] {
        var times: [CredentialID: Set<Timestamp>] = [:]
        let applied = try connection.fetchAll(
            """
            SELECT client_id, user_id, granted_at FROM grant_log
             WHERE \(connection.dialect.isOne("grant_id", ofIntegers: "$1")) AND outcome = 'applied' AND user_id IS NOT NULL
            """,
            ids
        )
        for row in applied {
            let credential = CredentialID(clientID: row.text(at: 0) ?? "", userID: row.text(at: 1) ?? "")
            times[credential, default: []].insert(Timestamp(milliseconds: row.integer(at: 2)))
        }
        let known = Set(times.keys.compactMap { id in directory.appNames[id.clientID].map { AppUserID(app: $0, userID: id.userID) } })
        var gone: [UserRecord] = []
        for user in try connection.users(Array(known), in: directory).values {
            for holding in user.holdings {
                let credential = CredentialID(clientID: holding.clientID, userID: user.id.userID)
                guard let times = times[credential] else { continue }
                let client = directory.client(holding.clientID).id
                guard holding.record.isOnly(of: times), try !isBeingRevoked(credential, client) else {
                    undo.kept += 1
                    continue
                }
                guard holding.record.claimedBy == nil else {
                    undo.busy += 1
                    continue
                }
                for table in ["canary", "credential"] {
                    try connection.execute("DELETE FROM \(table) WHERE user_id = $1 AND client = $2", credential.userID, client)
                }
                undo.forgotten += 1
                gone.append(UserRecord(user.id, stored: user.stored, credentials: [(holding.clientID, holding.record)]))
            }
        }
        return gone
    }

    /// A proof needs the credential until it ends.
    private func isBeingRevoked(_ credential: CredentialID, _ client: Int64) throws -> Bool {
        try connection.exists("SELECT 1 FROM revocation WHERE user_id = $1 AND client = $2", credential.userID, client)
    }
}
