// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The rule of an undo. It takes what only the import has told, and nothing else.
///
/// The model does not know in which transaction a row or a credential goes. It looks at what has gone, and says whether that may go. Once
/// the command reports that the undo is complete, the model says whether all has gone that had to.
extension ReferenceModel {
    /// A row of grants in the queue or in the log.
    struct ToldRow {
        /// Nil for a code that names nobody.
        var credential: CredentialID?
        var at: Timestamp
        /// The import that told it; nil for a backend.
        var importID: String?
        var isCode: Bool
        var logged: [String]?
        /// Whether an undo has taken its credential since.
        var isUndone = false

        /// Whether siwatch learns of the sign-in from this row. Of a code's it does only if Apple's answer arrives.
        var tellsSignIn: Bool {
            guard let outcome = logged?.first.flatMap(GrantLogOutcome.init) else { return !isCode }
            return ![.retold, .inFuture, .rejected].contains(outcome)
        }

        /// Whether siwatch has the credential from this row, too.
        var tellsCredential: Bool { !isUndone && (tellsSignIn && logged != nil || logged?.first == GrantLogOutcome.retold.rawValue) }
    }

    /// What has gone from the tables in one transaction of an undo.
    struct Taken {
        /// By the numbers in the queue.
        var rows: Set<Int64>
        var credentials: Set<CredentialID>
    }

    /// Whether Apple has rejected the user's token, and a sign-in at another client would hide that end.
    func hasEndedAtOneClient(_ user: String, of clients: [String]) -> Bool {
        let rows = credentials(of: user).compactMap { row(of: $0) }
        return !rows.isEmpty && rows.count < clients.count && rows.allSatisfy { $0.reason == "token_rejected" }
    }

    var importsTold: [String] { Set(toldRows.values.compactMap(\.importID)).sorted() }

    // MARK: Batches

    enum ExpectedBatch: Equatable {
        case told, known
        /// An undo has taken the import back since the batch before.
        case refused
    }

    func expected(_ batch: ImportBatch) -> ExpectedBatch {
        if importKeys[[batch.importID, batch.key]] != nil { return .known }
        if let key = batch.after, importKeys[[batch.importID, key]] == nil { return .refused }
        return .told
    }

    /// An import has told a batch.
    mutating func told(_ batch: ImportBatch, _ rows: [(id: Int64, row: GrantRow)], at now: Timestamp) {
        importKeys[[batch.importID, batch.key]] = now
        for (id, row) in rows { insert(row, as: id, toldBy: batch.importID) }
    }

    // MARK: The undo

    /// Why an undo must leave a credential; nil if only the import has told of it.
    func reasonToKeep(_ credential: CredentialID, of importID: String) -> String? {
        let others = toldRows.values.filter { $0.importID != importID }
        if others.contains(where: { $0.credential == credential && $0.tellsCredential }) {
            return "a backend or another import has told of it"
        }
        if others.contains(where: { $0.logged == nil && $0.credential?.userID == credential.userID }) { return "a row of its user waits" }
        if requestedUsers.contains(credential.userID) { return "a backend has asked to revoke it" }
        let user = userFacts[credential.userID] ?? UserFacts()
        let isTold = !user.consentRevoked.isEmpty || !user.deleted.isEmpty || !user.relays.isEmpty
        return isTold ? "Apple has notified siwatch of its user" : nil
    }

    /// An import whose sign-in hides the end of the user's other ones.
    var hidingImport: String? {
        let rows = toldRows.values.filter { $0.importID != nil && $0.tellsCredential }
        return rows.filter { told in
            guard let credential = told.credential, row(of: credential)?.state == "authorized" else { return false }
            let others = credentials(of: credential.userID).filter { $0 != credential }.compactMap { row(of: $0) }
            return !others.isEmpty && others.allSatisfy { $0.reason == "token_rejected" }
        }.compactMap(\.importID).min()
    }

    /// Takes out what one transaction of an undo has taken. The undo also forgets the keys, so that an import that runs ends.
    ///
    /// - Parameter isPunctual: whether the clock has always been right. Otherwise the model does not know when a claim ends.
    /// - Returns: the violation, if the undo may not take all of that. Then nothing is taken out.
    mutating func undo(_ importID: String, _ taken: Taken, isPunctual: Bool, at now: Timestamp) -> Violation? {
        if let violation = look(at: taken, of: importID, isPunctual: isPunctual, at: now) { return violation }
        importKeys = importKeys.filter { $0.key[0] != importID }
        noteShownAgain(without: taken.credentials)
        for id in taken.rows {
            guard let row = toldRows.removeValue(forKey: id) else { continue }
            rowsUndone += 1
            grantRows[id] = nil
            guard let credential = row.credential else { continue }
            // A credential that stays loses the sign-ins that siwatch had not taken yet.
            let isTold = toldRows.values.contains { $0.credential == credential && $0.at == row.at && $0.tellsSignIn && !$0.isUndone }
            if !isTold { inserted[credential]?.remove(row.at) }
        }
        for (id, row) in toldRows where row.logged != nil {
            if let credential = row.credential, taken.credentials.contains(credential) { toldRows[id]!.isUndone = true }
        }
        for credential in taken.credentials {
            touched.insert(credential.userID)
            facts[credential] = nil
            inserted[credential] = nil
            authorizedSince[credential] = nil
            poisoned.remove(credential)
        }
        // The address belongs to the user. What the import told of a user who stays at another client stays.
        // The log still knows events of unknown types, and a second one is a duplicate.
        for user in Set(taken.credentials.map(\.userID)) where credentials(of: user).isEmpty {
            userFacts[user] = userFacts[user].map { UserFacts(logged: $0.logged) }
        }
        return nil
    }

    private func look(at taken: Taken, of importID: String, isPunctual: Bool, at now: Timestamp) -> Violation? {
        for credential in taken.credentials.sorted(by: { $0.name < $1.name }) {
            guard let reason = reasonToKeep(credential, of: importID) else { continue }
            return Violation(.nothingIsLost, "the undo of \(importID) takes \(credential.name), although \(reason)")
        }
        for id in taken.rows.sorted() {
            guard let row = toldRows[id], let waiting = grantRows[id] else { continue }
            let name = "row \(id) of \(row.importID ?? "a backend")"
            guard row.importID == importID else { return Violation(.nothingIsLost, "the undo of \(importID) takes \(name)") }
            let isClaimed = waiting.held != nil && waiting.heldUntil > now
            if isClaimed, isPunctual { return Violation(.nothingIsLost, "an undo takes \(name), which siwatch is settling") }
        }
        return nil
    }

    /// Where the import's sign-in made a user count as signed in, the ends at other clients must be told again.
    private mutating func noteShownAgain(without gone: Set<CredentialID>) {
        for user in Set(gone.map(\.userID)) {
            let rows = credentials(of: user).compactMap { credential in row(of: credential).map { (credential, $0) } }
            let wasHidden = rows.contains { gone.contains($0.0) && $0.1.state == "authorized" }
            let left = rows.filter { !gone.contains($0.0) }
            guard wasHidden, !left.contains(where: { $0.1.state == "authorized" }) else { continue }
            for (credential, row) in left where row.reason != "never_granted" { shownAgain.insert(credential) }
        }
    }

    /// A violation, if a complete undo has left what only the import has told.
    func isUndone(_ importID: String) -> Violation? {
        for (id, row) in toldRows.sorted(by: { $0.key < $1.key }) where row.importID == importID {
            if row.logged == nil { return Violation(.nothingIsStuck, "the undo of \(importID) is complete, and its row \(id) waits") }
            guard row.tellsCredential, let credential = row.credential, reasonToKeep(credential, of: importID) == nil else { continue }
            return Violation(.stateFollowsFromFacts, "the undo of \(importID) is complete, and it has left \(credential.name)")
        }
        return nil
    }
}
