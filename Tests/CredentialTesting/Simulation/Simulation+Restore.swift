// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The database is put back to what it was, while sign-ins went on.
extension Simulation {
    /// What was known of the copy that the database keeps.
    struct Backup {
        var model: ReferenceModel
        var ledger: CallLedger
        var inspector: Inspector
        var takenAt: Timestamp
    }

    mutating func backUpOrRestore() async throws {
        guard let backup else { return try backUp() }
        // So that something has happened in between.
        guard backup.takenAt.duration(to: truth) >= .seconds(3600) else { return }
        try await restore(backup)
    }

    private mutating func backUp() throws {
        try check()
        try database.backUp()
        backup = world.with { state in
            state.note("a backup")
            return Backup(model: state.model, ledger: state.ledger, inspector: inspector, takenAt: state.truth)
        }
    }

    /// What the process and the backends did since is gone. Some backends tell the sign-ins since then again, as they kept them.
    private mutating func restore(_ backup: Backup) async throws {
        await abandon()
        try database.restore()
        inspector = backup.inspector
        inspector.lookAgain()
        let lost = world.with { state in
            state.count(.restore)
            state.note("the backup is restored")
            state.model = backup.model
            state.ledger.restore(backup.ledger)
            state.model.touched = Set(state.model.credentials.map(\.userID))
            return state.apple.signIns.filter { $0.at > backup.takenAt }
        }
        for signIn in lost where chance(500) {
            var told = signIn
            // A backend never sees what its codes brought.
            if told.isByCode || chance(500) { told.token = nil }
            agenda.append((truth, .grant(told, address: nil)))
        }
        try await crash()
    }
}
