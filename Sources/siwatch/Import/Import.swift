// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tells siwatch the sign-ins of a CSV file, such as an export of your users.",
        discussion: """
            The first line names the columns: user_id (or sub), client_id (or --client-id for all lines), refresh_token, granted_at (or \
            --granted-at for the lines without one), and if you have them email and email_is_private. Others are ignored. granted_at is in \
            seconds, milliseconds, Excel's days or ISO 8601. A line whose user_id does not look like Apple's, or whose provider is another, \
            is left out without --any-id. Ten lines, cut short, and what the columns are taken for are shown before anything is written.

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
    @Argument(help: ArgumentHelp("The CSV file; - for standard input.", valueName: "file"), completion: .file(extensions: ["csv"]))
    var file: String?
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
        guard (file == nil) != (undo == nil) else { throw ValidationError("Name either a CSV file or, with --undo, an import.") }
        if undo != nil, clientID != nil || grantedAt != nil || errors != nil || anyID || noTrial || noWait {
            throw ValidationError("--undo goes without the options of a file.")
        }
        if dryRun, undo == nil { throw ValidationError("--dry-run goes with --undo.") }
        if output.json, !yes, !dryRun { throw ValidationError("--json goes with --yes\(undo == nil ? "" : " or --dry-run").") }
    }

    func run() async throws {
        if let undo { return try await takeBack(undo) }
        let configuration = try options.readConfiguration()
        let bad = try BadLines(writingTo: errors)
        let line = progress.line(json: output.json)
        let outcome: Outcome
        do {
            let database = try configuration.existingDatabase()
            outcome = try await database.openBeside().closing { store in
                try await carryOut(configuration, database, store, bad, line)
            }
        } catch {
            throw CommandFailure(database: error)
        }
        try output.print(outcome.report, outcome.report.text)
        if let failure = outcome.failure { throw CommandFailure(code: failure.code, messages: failure.messages + bad.texts) }
        guard bad.count == 0 else { throw CommandFailure(code: .failure, messages: bad.texts) }
    }

    private func carryOut(
        _ configuration: Configuration,
        _ database: DatabaseLocation,
        _ store: any CredentialStore,
        _ bad: BadLines,
        _ line: ProgressLine
    ) async throws -> Outcome {
        let clock = try await FleetMembership.clock(of: store)
        // The database knows a new client once siwatch has read the configuration. It also knows clients that the configuration has lost.
        let known = Set(try await store.clients().map(\.clientID)).intersection(configuration.apps.flatMap(\.clientIDs))
        let path = self.file ?? "-"
        var file = try ImportFile(path, clientID: clientID, grantedAt: grantedAt, anyID: anyID, known: known, now: clock.now)
        let survey = try file.survey(line)
        // The same regular file is the same import. Of a pipe siwatch knows only the beginning.
        var toldBefore: Timestamp?
        if file.size == nil {
            let former = try await store.toldImports().filter { $0.importID == file.id && !$0.ledger.rows.isEmpty }
            toldBefore = former.compactMap(\.toldAt).min()
        }
        try present(survey, file, toldBefore)
        if !(noTrial && noWait) { try await requireSiwatch(database, store) }
        do throws(FileFailure) {
            try file.checkUnchanged()
        } catch {
            throw CommandFailure.failed(error.text(file.name))
        }

        var outcome = Outcome(report: Report(id: file.id))
        outcome.report.firstToldAt = toldBefore?.text
        var writer = ImportWriter(store, importID: file.id, waits: !noWait, clock: clock)
        let samples = noTrial ? [] : survey.samples
        if !samples.isEmpty {
            let result = try await test(samples.map { $0.signIn }, &writer, configuration, store, line)
            outcome.report.trial = result
            outcome.failure = verdict(on: result)
        }
        if outcome.failure == nil {
            do {
                let failure = try await tell(&file, survey, &writer, without: Set(samples.map { $0.line }), bad, line)
                outcome.failure = failure.map { CommandFailure.failed($0.text(file.name)) }
                if outcome.failure == nil { try await writer.finish() }
                if outcome.failure == nil, !noWait {
                    outcome.report.retold = try? await retold(writer, of: file.id, store, line)
                }
            } catch let failure as CommandFailure {
                outcome.failure = failure
            }
        }
        (outcome.report.told, outcome.report.knownBefore, outcome.report.bad) = (writer.told, writer.known, bad.count)
        outcome.report.tokens = writer.tokens
        return outcome
    }

    // MARK: The undo

    private func takeBack(_ importID: String) async throws {
        let configuration = try options.readConfiguration()
        let reversal = ImportReversal(importID: importID, configuration: configuration, progress: progress.line(json: output.json))
        if dryRun || !yes {
            let report = try await reversal.carryOut(isRehearsal: true)
            try output.print(report, report.text)
            if dryRun { return }
            guard let answer = Terminal.confirms("Take the import back?") else {
                throw CommandFailure.wrongUsage("nothing was taken back; repeat the command with --yes")
            }
            guard answer else { throw CommandFailure.wrongUsage("not confirmed; nothing was taken back") }
        }
        let report = try await reversal.carryOut(isRehearsal: false)
        try output.print(report, report.text)
        if let failure = report.failure { throw failure }
    }

    // MARK: Before the first row

    /// Shows what was found, and asks.
    ///
    /// - Parameter toldBefore: when siwatch was first told a pipe of this beginning; nil if never.
    private func present(_ survey: ImportSurvey, _ file: ImportFile, _ toldBefore: Timestamp?) throws(CommandFailure) {
        guard survey.unknownClients.isEmpty else { throw ImportColumns.unknownClients(survey.unknownClients) }
        if !output.json {
            // With --yes nobody looks, and the lines would end in the log of a job.
            try printOutput((yes ? "" : "\(survey.lines)\n\n") + "\(survey.verdict)\nImport \(file.id).")
            if let toldBefore {
                try printOutput(
                    """
                    A pipe that began with the same 64 KiB was told at \(toldBefore.text). This one is taken for the same import: its known \
                    lines are left out, and --undo takes both back. If it is another import, name a column in its first line that siwatch \
                    ignores.
                    """
                )
            }
        }
        guard survey.good > 0 else {
            let sentence = "\(file.name) has no good line; nothing was written"
            let reasons = [survey.strangers].compactMap(\.self) + survey.firstBad.map(\.text)
            throw CommandFailure(code: ExitCode(64), messages: [sentence] + reasons)
        }
        if yes { return }
        let question =
            survey.isWhole && survey.good > 1 ? "Tell siwatch these \(survey.good.grouped) sign-ins?" : "Tell siwatch these sign-ins?"
        guard let answer = Terminal.confirms(question) else { throw .wrongUsage("nothing was written; repeat the command with --yes") }
        guard answer else { throw .wrongUsage("not confirmed; nothing was written") }
    }

    /// - Throws: if nobody would take the rows, or ask Apple about the samples.
    private func requireSiwatch(_ database: DatabaseLocation, _ store: any CredentialStore) async throws {
        guard try await store.fleet?.isAtWork ?? database.isLocked else {
            throw CommandFailure.unavailable(
                "siwatch does not run, so nothing was written: start it, or tell all lines unseen with --no-trial --no-wait"
            )
        }
    }

    /// Tells the samples and hears what Apple says of them.
    private func test(
        _ samples: [ToldSignIn],
        _ writer: inout ImportWriter,
        _ configuration: Configuration,
        _ store: any CredentialStore,
        _ line: ProgressLine
    ) async throws -> ImportTrial.Result {
        let clients = Set(samples.map(\.clientID))
        let paused = try await store.apps().filter { $0.pausedAt != nil }.map(\.app)
        if let app = configuration.apps.first(where: { paused.contains($0.name) && !clients.isDisjoint(with: $0.clientIDs) }) {
            throw ImportTrial.paused(app.name)
        }
        for sample in samples { try await writer.add(sample) }
        let rows = try await writer.flush()
        try await writer.waitUntilSettled(rows)
        // If an earlier run has told them, the batch is named by its last row.
        let told = writer.known == 0 ? rows : try await store.toldImports().first { $0.batch == rows.max() }?.ledger.rows ?? rows
        let outcomes = try await store.signInOutcomes(told).values.filter { $0.outcome == "retold" }
        let retold = Set(outcomes.map { CredentialID(clientID: $0.clientID, userID: $0.userID ?? "") })
        let result = try await ImportTrial(configuration: configuration, store: store, samples: samples, retold: retold).run(line)
        if !output.json { try printOutput(result.text) }
        return result
    }

    /// Why the other lines are not told; nil if they are.
    private func verdict(on result: ImportTrial.Result) -> CommandFailure? {
        if result.isGood { return nil }
        if !yes, Terminal.confirms("Tell the other lines all the same?") == true { return nil }
        if result.answered == 0, result.unanswered == 0 {
            return .wrongData(
                """
                \(result.text) So Apple was asked about none of them, and the other lines were not told. To correct times that were too \
                early, import the true times with an empty refresh_token. If siwatch knows newer sign-ins of these users, repeat the \
                command with --no-trial
                """
            )
        }
        if result.answered == 0 {
            return .unavailable(
                """
                \(result.text) The other lines were not told. siwatch status says whether siwatch runs and what Apple says of the client. Then \
                repeat the command
                """
            )
        }
        return .wrongData(
            """
            \(result.text) The other lines were not told. Are the tokens whole, and is this the client that they were issued to? If they are \
            right and only old, repeat the command with --no-trial. siwatch unverified --app NAME lists the samples that Apple rejects, and \
            siwatch import --undo takes them back
            """
        )
    }

    // MARK: The rest

    /// How many rows of this run, and of the earlier one that it repeats, changed nothing.
    private func retold(
        _ writer: ImportWriter,
        of importID: String,
        _ store: any CredentialStore,
        _ line: ProgressLine
    ) async throws -> Int {
        let batches = try await store.toldImports().filter { $0.importID == importID && writer.batches.contains($0.batch) }
        line.begin("looking at the outcomes", of: batches.count, "batches")
        defer { line.end() }
        var count = 0
        for batch in batches {
            count += try await store.retoldSignIns(of: batch)
            line.add()
        }
        return count
    }

    /// - Returns: why it has not told the rest of the file; nil if it has come to the end.
    private func tell(
        _ file: inout ImportFile,
        _ survey: ImportSurvey,
        _ writer: inout ImportWriter,
        without sampled: Set<Int>,
        _ bad: BadLines,
        _ line: ProgressLine
    ) async throws -> FileFailure? {
        line.begin("importing", of: survey.isWhole ? survey.count : nil, "lines")
        defer { line.end() }
        do {
            while let record = try file.next() {
                line.add()
                if sampled.contains(record.line) { continue }
                let signIn: ToldSignIn
                do throws(BadLine) {
                    signIn = try file.columns.signIn(of: record, in: survey.unit).signIn
                } catch {
                    try bad.append(error)
                    continue
                }
                try await writer.add(signIn)
            }
        } catch let failure as FileFailure {
            // The lines before a failure are good, but those of a changed file may be anything.
            if failure != .changed { _ = try await writer.flush() }
            return failure
        }
        _ = try await writer.flush()
        return nil
    }

    private struct Outcome {
        var report: Report
        /// Why the command fails although it has a report.
        var failure: CommandFailure?
    }
}
