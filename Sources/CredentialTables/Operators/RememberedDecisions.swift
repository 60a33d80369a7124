// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What a `DecisionMemory` keeps: by database and row, proofs of the decisions that may stand there. There are several while a transaction
/// commits, and after a commit whose outcome nobody knows. A database is named by a proof too, so the memory of another one does not count,
/// and stays.
struct RememberedDecisions: Codable {
    private var databases: [String: [String: Set<[UInt8]>]] = [:]

    /// Of the rows that are remembered.
    func proofs(of row: DecisionRow, of app: String?, by prover: any DecisionProver) -> Set<[UInt8]>? {
        // A server's stay empty, and a proof for each settlement costs.
        databases.isEmpty ? nil : databases[Self.name(of: prover)]?[Self.name(of: row, of: app)]
    }

    mutating func change(
        _ row: DecisionRow,
        of app: String?,
        by prover: any DecisionProver,
        _ body: (Set<[UInt8]>) -> Set<[UInt8]>
    ) {
        let old = proofs(of: row, of: app, by: prover) ?? []
        databases[Self.name(of: prover), default: [:]][Self.name(of: row, of: app)] = body(old)
    }

    private static func name(of prover: any DecisionProver) -> String { prover.prove(.database).map(\.hexadecimal).joined() }
    private static func name(of row: DecisionRow, of app: String?) -> String { "\(row.kind) \(app ?? "\(row.id)")" }
}
