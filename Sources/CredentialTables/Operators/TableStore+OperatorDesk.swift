// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import NIOConcurrencyHelpers

/// SQL: whether a request still has work left.
private let open = "(answer IS NULL OR position IS NOT NULL)"

extension TableStore {
    package func noteBackup(at now: Timestamp) async throws {
        try await transaction { try $0.set(BackupCounter.writtenAt, to: now.milliseconds) }
    }

    package func submit(_ request: OperatorRequest, at now: Timestamp) async throws -> Int64 {
        let (text, number) = (try JSONText.encode(request), Int64.random(in: .min ... .max))
        let proof = decisions.proof(of: .request(text: text, at: now, number: number))
        return try await transaction { connection in
            try connection.insert(
                "operator_request (request, requested_at, number, proof) VALUES (\(text), \(now), \(number), \(proof.columnValue))"
            )
        }
    }

    package func answer(to id: Int64) async throws -> OperatorAnswer? {
        let text = try await query { try $0.fetchOne("SELECT answer FROM operator_request WHERE id = \(id)")?.text(at: 0) }
        return text.map { JSONText.decode($0) ?? .notUnderstood }
    }

    package func withdraw(_ id: Int64) async throws -> Bool {
        try await transaction { try $0.change("DELETE FROM operator_request WHERE id = \(id) AND answer IS NULL") > 0 }
    }

    package func handleNextRequest(under rules: RecheckRules, at now: Timestamp) async throws -> HandledRequest? {
        // An idle round begins no transaction.
        let known = directory.withLockedValue { $0 }
        let apps = known.apps.values.map(\.id).sorted()
        let (isOpen, isOurs) = try await query(.short) { [decisions] connection in
            let isOpen = try connection.exists("SELECT 1 FROM operator_request WHERE \(sql: open)")
            return (isOpen, try PauseRow(connection: connection, decisions: decisions).seemOurs(apps))
        }
        if !isOurs { try await transaction { [decisions] in try PauseRow(connection: $0, decisions: decisions).restore(apps) } }
        guard isOpen else { return nil }
        let handled = try await transaction { [decisions] connection -> HandledRequest? in
            // New requests first, because somebody waits for them. A request that another replica carries out stays with that replica.
            func bounded(_ column: String) -> SQL {
                let size = connection.dialect.payloadSize(column)
                return "CASE WHEN \(size) <= \(sql: OperatorRequest.mostBytes) THEN \(sql: column) END"
            }
            let row = try connection.fetchOne(
                """
                SELECT id, \(bounded("request")), requested_at, CASE WHEN answer IS NOT NULL THEN 1 END, \(bounded("position")), number,
                       substr(proof, 1, 64)
                  FROM operator_request
                 WHERE \(sql: open)
                 ORDER BY answer IS NOT NULL, id LIMIT 1 \(connection.dialect.skipLocked)
                """
            )
            guard let row else { return nil }
            // Replicas of a server register clients, too. A process that only appends knows none.
            let isKnown = connection.dialect == .sqlite && !known.apps.isEmpty
            let directory = try isKnown ? known : ClientDirectory(connection)
            return try OperatorTransaction(connection: connection, directory: directory, decisions: decisions, rules: rules, now: now)
                .handle(row)
        }
        if handled?.request?.erasesTokens ?? false { tokenWasErased() }
        if handled?.request?.isErasure ?? false {
            // A reader is mostly done within the second: at the least, somebody looks for the answer. Else the next upkeep sweeps.
            try? await sweep(at: now, patience: .seconds(1))
        }
        return handled
    }

    package func renameApp(_ old: String, to new: String) async throws {
        try await transaction { connection in
            try connection.beginRename(of: old)
            let known = try connection.fetchAll("SELECT name FROM app ORDER BY name").map { $0.text(at: 0) ?? "" }
            guard known.contains(old) else { throw AppRenameError.unknown(old, known: known) }
            guard !known.contains(new) else { throw AppRenameError.taken(new) }
            try connection.execute("UPDATE app SET name = \(new) WHERE name = \(old)")
            for table in ["notification_log", "revocation_log", "credential_change"] {
                try connection.execute("UPDATE \(sql: table) SET app = \(new) WHERE app = \(old)")
            }
        }
    }
}

extension TableStore {
    package func trust(_ prover: any DecisionProver, since now: Timestamp, _ memory: (any DecisionMemory)?) {
        decisions.trust(prover, since: now, memory)
    }
    package func takePlanted() -> [PlantedDecisions] { decisions.takePlanted() }
}
