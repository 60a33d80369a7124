// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tells siwatch the sign-ins of a CSV file or of a platform's export.",
        discussion: """
            The first line names the columns: user_id (or sub), client_id (or --client-id for all lines), refresh_token, granted_at (or \
            --granted-at for the lines without one), and if you have them email and email_is_private. Others are ignored. granted_at is in \
            seconds, milliseconds, Excel's days or ISO 8601. A line whose user_id does not look like Apple's, or whose provider is another, \
            is left out without --any-id. Ten lines, cut short, and what the columns are taken for are shown before anything is written.

            --from reads the export of a platform in its own format, CSV or JSON, and leaves the users of other providers out. docs/guides says \
            how to make the export, and what is in it.

            siwatch has to run. First siwatch asks Apple about 40 lines from all over the file. Only if Apple accepts at least half of them, \
            the rest is told, and siwatch asks about it over one refresh.interval. A cut short import goes on with the same command, for a \
            day.

            --undo takes an import back as a whole, under the name that the import has printed. It removes what only this import has told, \
            and keeps each user that siwatch knew before or that a backend, another import or Apple has told of. What the import \
            told of a kept user stays. An import that still runs tells no more.

            It exits with 0 if all lines were told, with 1 if lines were left out, the file could not be read to its end or an undo came in \
            between, with 64 if nothing was confirmed, with 65 if Apple did not accept the samples, and with 69 if siwatch or the database \
            is away, or if the undo has to be repeated.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var progress: ProgressOptions
    @Argument(help: ArgumentHelp("The file; - for standard input.", valueName: "file"), completion: .file(extensions: ["csv", "json"]))
    var file: String?
    @Option(help: ArgumentHelp("The platform whose export the file is.", valueName: "platform")) var from: ImportSource?
    @Option(help: ArgumentHelp("Take back the import of this name.", valueName: "name")) var undo: String?
    @Flag(help: "With --undo: say what would go, and change nothing.") var dryRun = false
    @Option(help: ArgumentHelp("The client of all lines, if no column names it.", valueName: "client")) var clientID: String?
    @Option(
        help: ArgumentHelp("When the users of the lines without granted_at signed in, as in that column.", valueName: "time")
    )
    var grantedAt: String?
    @Option(
        help: ArgumentHelp("Write each bad line, with its number and what is wrong, to this new file.", valueName: "file"),
        completion: .file()
    )
    var errors: String?
    @Flag(name: .customLong("any-id"), help: "Also tell users whose ids do not look like Apple's, or who signed in elsewhere.")
    var anyID = false
    @Flag(name: .shortAndLong, help: "Do not ask before writing.") var yes = false
    @Flag(help: "Do not ask Apple about samples first.") var noTrial = false
    @Flag(help: "Tell the lines as fast as the database takes them: do not wait for the siwatch that runs.") var noWait = false

    func validate() throws {
        guard (file == nil) != (undo == nil) else { throw ValidationError("Name either a file or, with --undo, an import.") }
        if undo != nil, clientID != nil || grantedAt != nil || errors != nil || from != nil || anyID || noTrial || noWait {
            throw ValidationError("--undo goes without the options of a file.")
        }
        if let from, from.users != nil, clientID == nil {
            throw ValidationError("--from \(from.name) goes with --client-id, because no such file names the client.")
        }
        if dryRun, undo == nil { throw ValidationError("--dry-run goes with --undo.") }
        if output.json, !yes, !dryRun { throw ValidationError("--json goes with --yes\(undo == nil ? "" : " or --dry-run").") }
    }

    func run() async throws {
        if let undo { return try await takeBack(undo) }
        let configuration = try options.readConfiguration()
        let bad = try BadLines(writingTo: errors)
        let (report, failure) = try await configuration.withStore(appends: true) { store in
            var run = try await ImportRun(self, configuration, store, bad)
            let failure = try await run.carryOut()
            return (run.report, failure)
        }
        try output.print(report, report.text)
        if let failure { throw CommandFailure(code: failure.code, messages: failure.messages + bad.texts) }
        guard bad.count == 0 else { throw CommandFailure(code: .failure, messages: bad.texts) }
    }

    private func takeBack(_ importID: String) async throws {
        let configuration = try options.readConfiguration()
        let reversal = ImportReversal(importID: importID, configuration: configuration, progress: progress.line(json: output.json))
        if dryRun || !yes {
            let report = try await reversal.rehearse()
            try output.print(report, report.text)
            if dryRun { return }
            try Terminal.requireYes("Take the import back?", orElse: "nothing was taken back")
        }
        let report = try await reversal.carryOut()
        try output.print(report, report.text)
        if let failure = report.failure { throw failure }
    }
}
