// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Operators restore an old backup of the database, while people go on signing in.
extension Simulation {
    /// The model's state at the time of the backup.
    struct Backup {
        var model: ReferenceModel
        var ledger: CallLedger
        var inspector: Inspector
        var takenAt: Timestamp
    }

    mutating func backUpOrRestore() async throws {
        guard let backup else { return try backUp() }
        // Wait, so that something has happened in between.
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

    /// All writes of the process and the backends since the backup are gone. Some backends report the sign-ins since then again, from their
    /// own records.
    private mutating func restore(_ backup: Backup) async throws {
        await abandon()
        // The command has lost its database.
        undo = nil
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
            // A backend never sees the tokens of its codes.
            if told.isByCode || chance(500) { told.token = nil }
            agenda.append((truth, .grant(told, address: nil)))
        }
        try await crash()
    }
}
