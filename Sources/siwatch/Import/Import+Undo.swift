// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension Import {
    /// Takes an import back, batch after batch, so that no transaction is long.
    func takeBack(_ id: String, _ configuration: Configuration) async throws {
        let line = progress.line(json: output.json)
        line.begin("undoing", of: nil, "rows")
        defer { line.end() }
        var total = ImportUndo()
        while true {
            let request = OperatorRequest.undoImport(id: id, after: total.key ?? "")
            let answer = try await request.carryOut(in: configuration)
            guard case .importUndone(let undo) = answer else { throw CommandFailure(answer, to: request) }
            guard let key = undo.key else { break }
            total.key = key
            total.removed += undo.removed
            total.forgotten += undo.forgotten
            total.kept += undo.kept
            total.busy += undo.busy
            line.set(total.removed + total.forgotten + total.kept)
        }
        guard total.key != nil else {
            throw CommandFailure.failed("siwatch knows no import \(id.printable); it remembers one for \(ImportBatch.life.text)")
        }
        line.end()
        try output.print(Undone(total), Undone(total).text)
        guard total.busy == 0 else {
            throw CommandFailure.unavailable("siwatch was at work on \(total.busy.counted("row")); repeat the command")
        }
    }

    private struct Undone: Encodable {
        var removed: Int
        var forgotten: Int
        var kept: Int
        var busy: Int

        init(_ undo: ImportUndo) {
            (removed, forgotten, kept, busy) = (undo.removed, undo.forgotten, undo.kept, undo.busy)
        }

        var text: String {
            """
            \(removed.grouped) rows had not left the queue, and are gone. \(forgotten.grouped) credentials came from this import alone and \
            Apple had not accepted their token: siwatch has forgotten them. \(kept.grouped) stay, because Apple has accepted the token or \
            siwatch knows more of them. The rows of credential_change stay, and so does an address.
            """
        }
    }
}
