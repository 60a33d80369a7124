// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Another day an operator undoes an import. The command is a process of its own, too, and goes from portion to portion.
extension Simulation {
    /// An operator begins an undo, or the undo goes on, or ends early. Now and then another operator undoes something meanwhile.
    mutating func undoImport() async throws {
        let names = world.with { $0.model.importsTold }
        guard let name = undo else {
            guard let other = names.randomElement(using: &generator) else { return }
            let name = world.with(\.model).hidingImport ?? other
            undo = name
            return world.note("an operator undoes \(name)")
        }
        if chance(120) {
            undo = nil
            return world.note("the undo is cut short", counting: .undoCutShort)
        }
        if chance(60), let other = names.randomElement(using: &generator) { _ = try await takeBack(other) }
        if chance(200) {
            world.with { $0.count(.undoRehearsed) }
            _ = try await process.store.rehearseUndo(of: name, at: now)
            try check()
        }
        // Nobody waits for a late answer.
        guard let undone = try await takeBack(name), undone.isDone else { return }
        if undone.claimed > 0 {
            world.with { $0.count(.undoWaits) }
            // The patience of the command may end.
            if chance(700) { return }
        }
        undo = nil
    }

    /// siwatch believes a rejection only after days. So only in the calm an import can hide its end, and an undo can show it again.
    mutating func importWhatHidesAnEnd() async throws {
        if chance(world.with(\.model).hidingImport == nil ? 30 : 400) { try await undoImport() }
        if !ended.isEmpty, chance(400) { try await importFile() }
    }

    /// Lets the daemon undo one portion, and tells the model what has gone.
    ///
    /// - Returns: nil if the request came too late.
    private mutating func takeBack(_ importID: String) async throws -> UndoneImport? {
        // The earlier commits did not know what goes now.
        try check()
        let answer = try await ask(.undoImport(bug == .undoIgnored ? "none" : importID))
        if answer == .expired { return nil }
        guard case .importUndone(let undone)? = answer else {
            world.report(Violation(.nothingIsLost, "an undo answers \(answer.map { "\($0)" } ?? "nothing")"))
            return nil
        }
        let taken = try gone()
        let isRight = world.with { state in
            state.note("\(importID): \(taken.rows.count) rows, \(taken.credentials.map(\.name).sorted()) go, done \(undone.isDone)")
            return state.undone(importID, undone, taken)
        }
        guard isRight else { return undone }
        inspector.forget(taken.credentials)
        world.report(try whatIsLeft(of: taken.credentials))
        return undone
    }

    /// The waiting rows and credentials that the model knows and the tables do not hold.
    private func gone() throws -> ReferenceModel.Taken {
        let rows = try database.rows("SELECT id FROM grant_queue").map { $0[0] as Int64 }
        let credentials = try database.rows(
            "SELECT client.client_id, user_id FROM credential JOIN client ON client.id = credential.client"
        ).map { CredentialID(clientID: $0[0], userID: $0[1]) }
        return world.with { state in
            let (knownRows, known) = (Set(state.model.grantRows.keys), Set(state.model.credentials))
            return ReferenceModel.Taken(rows: knownRows.subtracting(rows), credentials: known.subtracting(credentials))
        }
    }

    /// A violation, if a table still holds something of a credential that an undo has taken. The logs may tell of it.
    private func whatIsLeft(of credentials: Set<CredentialID>) throws -> Violation? {
        for credential in credentials.sorted(by: { $0.name < $1.name }) {
            let isUserGone = world.with { $0.model.credentials(of: credential.userID).isEmpty }
            let row = try database.rows(
                """
                SELECT (SELECT COUNT(*) FROM canary WHERE user_id = ?2 AND client IN (SELECT id FROM client WHERE client_id = ?1)),
                       (SELECT COUNT(*) FROM admitted_rejection
                         WHERE user_id = ?2 AND client IN (SELECT id FROM client WHERE client_id = ?1)),
                       (SELECT COUNT(*) FROM user_event WHERE user_id = ?2)
                """,
                [credential.clientID, credential.userID]
            )[0]
            let (canaries, rejections, registers): (Int, Int, Int) = (row[0], row[1], row[2])
            guard canaries + rejections > 0 || isUserGone && registers > 0 else { continue }
            let text = "\(canaries) canaries, \(rejections) rejections, \(registers) registers"
            return Violation(.stateFollowsFromFacts, "an undo has taken \(credential.name), and has left \(text)")
        }
        return nil
    }
}

extension SimulatedWorld.State {

    /// Tells the model what a portion of an undo has taken.
    ///
    /// - Returns: whether the undo may take it.
    fileprivate mutating func undone(_ importID: String, _ undone: UndoneImport, _ taken: ReferenceModel.Taken) -> Bool {
        if taken.rows.count != undone.taken || taken.credentials.count != undone.removed {
            let told = "\(undone.taken) waiting rows and \(undone.removed) credentials"
            let text = "an undo tells of \(told), and \(taken.rows.count) and \(taken.credentials.count) are gone"
            report(Violation(.stateFollowsFromFacts, text))
        }
        if let violation = model.undo(importID, taken, isPunctual: ledger.setAt == nil, at: now) {
            report(violation)
            return false
        }
        // siwatch may ask about the same token once more, if somebody tells it again.
        for credential in taken.credentials { ledger.replaced(credential, at: truth) }
        if !taken.credentials.isEmpty { count(.undoTook) }
        if !model.shownAgain.isEmpty { count(.undoShowedAnEnd) }
        if undone.isDone, undone.stayed > 0 { count(.undoKept) }
        if undone.isDone, undone.claimed == 0 {
            count(.undoComplete)
            report(model.isUndone(importID))
        }
        return true
    }
}
