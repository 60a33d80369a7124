// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Undoes an import, one batch at a time. Each batch is one operator's request, and one transaction decides about all of its users.
struct ImportReversal {
    let importID: String
    let configuration: Configuration
    let progress: ProgressLine

    /// How long to come back to rows that the daemon is settling.
    private static let patience = Duration.seconds(30)
    private static let pause = Duration.milliseconds(500)

    struct Report: Encodable {
        var id: String
        var isRehearsal: Bool
        /// When the first and the last batch were told, if they are further apart than one import can be; otherwise nil.
        var toldFrom: String?
        var toldTo: String?
        /// Credentials that only the import had told.
        var removed = 0
        /// Waiting sign-ins that are gone from `grant_queue`.
        var taken = 0
        /// Credentials that stay, by the reason.
        var kept: [String: Int] = [:]
        /// Credentials with a row that siwatch is settling.
        var claimed = 0

        var text: String {
            let credentials = "\(removed.grouped) \(removed == 1 ? "credential" : "credentials")"
            let rows = "\(taken.grouped) waiting \(taken == 1 ? "sign-in" : "sign-ins")"
            let first = "Import \(id.printable): \(credentials) and \(rows) \(isRehearsal ? "would go" : "are gone")."
            let reasons = KeptImport.allCases.compactMap { reason -> String? in
                guard let count = kept[reason.rawValue], count > 0 else { return nil }
                return "kept \(count.grouped): \(reason.text)"
            }
            let busy = claimed > 0 ? ["waits for \(claimed.grouped): siwatch is settling their sign-ins"] : []
            var several: [String] = []
            if let toldFrom, let toldTo {
                several.append("told from \(toldFrom) to \(toldTo): these are several imports of one name, and all of them go")
            }
            return ([first] + several + reasons + busy).joined(separator: "\n")
        }

        /// Why the command fails although it has a report; nil if it does not.
        var failure: CommandFailure? {
            guard claimed > 0, !isRehearsal else { return nil }
            return .unavailable("siwatch is still settling some rows of the import: repeat the command")
        }

        fileprivate mutating func take(_ undone: UndoProgress) {
            (removed, taken, kept, claimed) = (undone.removed, undone.taken, undone.kept, undone.claimed)
        }

        fileprivate mutating func note(_ times: [Timestamp]) {
            guard let first = times.min(), let last = times.max(), first.duration(to: last) > RequestKey.life else { return }
            (toldFrom, toldTo) = (first.text, last.text)
        }
    }

    /// - Parameter isRehearsal: whether to count only, and to change nothing.
    /// - Throws: `CommandFailure`. What is undone by then stays undone, and a repeated command goes on.
    func carryOut(isRehearsal: Bool) async throws -> Report {
        var report = Report(id: importID, isRehearsal: isRehearsal)
        var undone = UndoProgress()
        let end = ContinuousClock.now + Self.patience
        while true {
            // An import that still runs may have told a batch meanwhile. It tells no further one, because the undo has forgotten its keys.
            let (undos, times) = try await search(after: undone, isRehearsal: isRehearsal)
            report.note(times)
            undone.add(undos)
            if undone.next == nil { return report }
            try await carryOut(&undone, &report)
            if isRehearsal { return report }
            if undone.claimed == 0 { continue }
            if ContinuousClock.now >= end { return report }
            try await Task.sleep(for: Self.pause)
            undone.beginAgain()
        }
    }

    /// Carries out one round.
    private func carryOut(_ undone: inout UndoProgress, _ report: inout Report) async throws {
        progress.begin(report.isRehearsal ? "looking" : "undoing", of: undone.count, "batches")
        defer { progress.end() }
        while let undo = undone.next {
            do {
                guard undone.take(try await carryOut(undo)) else { throw Self.otherUndo }
            } catch let failure as CommandFailure where !report.isRehearsal && undone.removed + undone.taken > 0 {
                let sentence = """
                    before that, \(undone.removed.grouped) credentials and \(undone.taken.grouped) waiting sign-ins of the import were taken \
                    back: repeat the command, and the undo goes on
                    """
                throw CommandFailure(code: failure.code, messages: failure.messages + [sentence])
            }
            report.take(undone)
            progress.add()
        }
    }

    private func carryOut(_ undo: ImportUndo) async throws -> ImportUndo.Result {
        let request = OperatorRequest.undoImport(undo)
        let answer = try await request.carryOut(in: configuration)
        guard case .importUndone(let result) = answer else { throw CommandFailure(answer, to: request) }
        return result
    }

    private static let otherUndo = CommandFailure.unavailable(
        "rows of an import were erased since this undo looked, by another undo or before a connection was lost: repeat the command"
    )

    /// Searches for the batches that no earlier round has searched.
    ///
    /// The connection is closed afterwards, because a request may have to take the lock on the file.
    /// - Returns: also when the batches with rows were told.
    private func search(after undone: UndoProgress, isRehearsal: Bool) async throws -> (undos: [ImportUndo], toldAt: [Timestamp]) {
        try await configuration.withStore { store in
            let all = try await store.toldImports()
            let batches = all.filter { $0.importID == importID }
            guard !batches.isEmpty || undone.hasSearched else { throw unknown(all) }
            let search = ImportSearch(store) { [progress] step in
                switch step {
                case .beginsToReadImport(let count): progress.begin("reading the import", of: count, "batches")
                case .begins(let log): progress.begin("searching \(log.rawValue)", of: nil, "rows")
                case .hasRead(let count): progress.add(count)
                }
            }
            defer { progress.end() }
            let undos = try await search.undos(of: undone.unsearched(batches), isRehearsal: isRehearsal)
            return (undos, batches.filter { !$0.ledger.rows.isEmpty }.compactMap(\.toldAt))
        }
    }

    private func unknown(_ all: [ToldImport]) -> CommandFailure {
        let names = Dictionary(grouping: all) { $0.importID }.map { id, batches in
            "\(id.printable) of \(batches.compactMap { $0.toldAt }.min()?.text ?? "an unknown time")"
        }
        let known = names.isEmpty ? "it knows no import" : "it knows \(names.sorted().prefix(10).joined(separator: ", "))"
        return .wrongUsage("siwatch knows no import \(importID.printable), or it is too old to be undone; \(known)")
    }
}

extension KeptImport {
    fileprivate var text: String {
        switch self {
        case .knownBefore: "siwatch knew them before the import"
        case .otherSignIn: "a backend or another import told about them too"
        case .revocation: "a backend asked to revoke them"
        case .notification: "Apple told about them"
        case .unexplained: "siwatch holds a sign-in or a token of theirs that the import did not bring"
        }
    }
}
