// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Takes an import back, one portion at a time. Each portion is one operator's request and one transaction.
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
        /// Sign-ins that siwatch is settling.
        var claimed = 0
        /// Sign-ins whose credentials stay.
        var stayed = 0

        init(_ told: ToldImport, isRehearsal: Bool) {
            id = told.importID
            self.isRehearsal = isRehearsal
            guard told.signIns > 0, told.from.duration(to: told.to) > RequestKey.life else { return }
            (toldFrom, toldTo) = (told.from.text, told.to.text)
        }

        mutating func add(_ undone: UndoneImport) {
            (removed, taken) = (removed + undone.removed, taken + undone.taken)
            (claimed, stayed) = (undone.claimed, undone.stayed)
        }

        var text: String {
            let credentials = "\(removed.grouped) \(removed == 1 ? "credential" : "credentials")"
            let rows = "\(taken.grouped) waiting \(taken == 1 ? "sign-in" : "sign-ins")"
            var lines = ["Import \(id.printable): \(credentials) and \(rows) \(isRehearsal ? "would go" : "are gone")."]
            if let toldFrom, let toldTo {
                lines.append("told from \(toldFrom) to \(toldTo): these are several imports of one name, and all of them go")
            }
            if stayed > 0 {
                lines.append(
                    """
                    \(stayed.grouped) more of its sign-ins removed nothing: siwatch knew the user before, something else has told of the user \
                    too, another line names the same credential, or siwatch had rejected the line
                    """
                )
            }
            if claimed > 0 { lines.append("waits for \(claimed.grouped): siwatch is settling them") }
            return lines.joined(separator: "\n")
        }

        /// Why the command fails although it has a report; nil if it does not.
        var failure: CommandFailure? {
            guard claimed > 0, !isRehearsal else { return nil }
            return .unavailable("siwatch is still settling some rows of the import: repeat the command")
        }
    }

    func rehearse() async throws -> Report {
        try await configuration.withStore { store in
            var report = Report(try await find(in: store), isRehearsal: true)
            let clock = try await FleetMembership.clock(of: store)
            report.add(try await store.rehearseUndo(of: importID, at: clock.now))
            return report
        }
    }

    /// - Throws: `CommandFailure`. What is undone by then stays undone, and a repeated command goes on.
    func carryOut() async throws -> Report {
        // The connection is closed afterwards, because a request may have to take the lock on the file.
        var report = Report(try await configuration.withStore(find), isRehearsal: false)
        progress.begin("undoing", of: nil, "sign-ins")
        defer { progress.end() }
        let end = ContinuousClock.now + Self.patience
        while true {
            let undone = try await carryOutPortion(after: report)
            report.add(undone)
            progress.add(undone.removed + undone.taken)
            guard undone.isDone else { continue }
            if undone.claimed == 0 || ContinuousClock.now >= end { return report }
            try await Task.sleep(for: Self.pause)
        }
    }

    private func carryOutPortion(after report: Report) async throws -> UndoneImport {
        do throws(CommandFailure) {
            let request = OperatorRequest.undoImport(importID)
            return try await request.carryOut(in: configuration) { if case .importUndone(let undone) = $0 { undone } else { nil } }
        } catch {
            guard report.removed + report.taken > 0 else { throw error }
            let sentence = """
                before that, \(report.removed.grouped) credentials and \(report.taken.grouped) waiting sign-ins of the import were taken \
                back: repeat the command, and the undo goes on
                """
            throw CommandFailure(code: error.code, messages: error.messages + [sentence])
        }
    }

    private func find(in store: any CredentialStore) async throws -> ToldImport {
        let all = try await store.toldImports()
        if let told = all.first(where: { $0.importID == importID }) { return told }
        let names = all.filter { $0.signIns > 0 }.map { "\($0.importID.printable) of \($0.from.text)" }
        let known = names.isEmpty ? "it knows no import" : "it knows \(names.prefix(10).joined(separator: ", "))"
        throw CommandFailure.wrongUsage("siwatch knows no import \(importID.printable); \(known)")
    }
}
