// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

struct Import: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Tells siwatch the sign-ins of a CSV file, such as an export of your users.",
        discussion: """
            The first line names the columns: user_id (or sub), client_id (or --client-id for all lines), refresh_token, and if you have them \
            granted_at, email and email_is_private. Others are ignored. granted_at is in seconds, milliseconds or ISO 8601. Ten lines and what \
            the columns are taken for are shown before anything is written.

            siwatch has to run. First Apple is asked about 40 lines from all over the file. Only if it accepts at least half of them, the rest \
            is told, and siwatch asks about it over one refresh.interval. A cut short import goes on with the same command, for 30 days. --undo \
            takes an import back: the rows that wait, and the users whom it alone has made and whose token Apple has not accepted.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var progress: ProgressOptions
    @Argument(help: ArgumentHelp("The CSV file; - for standard input.", valueName: "file"), completion: .file(extensions: ["csv"]))
    var file: String?
    @Option(help: ArgumentHelp("The client of all lines, if no column names it.", valueName: "client")) var clientID: String?
    @Option(
        help: ArgumentHelp("Write each bad line, with its number and what is wrong, to this file.", valueName: "file"),
        completion: .file()
    )
    var errors: String?
    @Option(help: ArgumentHelp("Take an import back, by the id that it has printed.", valueName: "id")) var undo: String?
    @Flag(name: .shortAndLong, help: "Do not ask before writing.") var yes = false
    @Flag(help: "Tell all lines at once: do not ask Apple about samples, and do not wait for the siwatch that runs.") var noWait = false

    func validate() throws {
        guard (file == nil) != (undo == nil) else { throw ValidationError("Name either a file or, with --undo, an import.") }
        if output.json, !yes, undo == nil { throw ValidationError("--json goes with --yes.") }
    }

    func run() async throws {
        let configuration = try options.readConfiguration()
        if let undo { return try await takeBack(undo, configuration) }
        let bad = try BadLines(writingTo: errors)
        let line = progress.line(json: output.json)
        do {
            let database = try configuration.existingDatabase()
            let report = try await database.openBeside().closing { store -> Report in
                let clock = try await FleetMembership.clock(of: store)
                let clients = Set(configuration.apps.flatMap(\.clientIDs))
                var file = try ImportFile(self.file ?? "", clientID: clientID, known: clients, now: clock.now)
                let survey = try file.survey(line)
                try present(survey, file)
                var done = Report(id: file.id)
                var writer = ImportWriter(store, importID: file.id, waits: !noWait, clock: clock)
                if !noWait { done.trial = try await test(survey, of: file.id, &writer, configuration, store, line) }
                let sampled = noWait ? [] : Set(survey.samples.map { $0.line })
                try await tell(&file, survey, &writer, without: sampled, bad, line)
                (done.told, done.knownBefore, done.bad) = (writer.told, writer.known, bad.count)
                return done
            }
            try output.print(report, report.text)
        } catch {
            throw CommandFailure(database: error)
        }
        guard bad.count == 0 else {
            throw CommandFailure(code: .failure, messages: ["\(bad.count.counted("line")) left out"] + bad.texts)
        }
    }

    // MARK: Before the first row

    /// Shows what was found, and asks.
    private func present(_ survey: ImportSurvey, _ file: ImportFile) throws(CommandFailure) {
        if !output.json { try printOutput("\(survey.text)\nImport \(file.id).") }
        guard survey.good > 0 else { throw .failed("\(file.name) has no good line; nothing was written") }
        let question = survey.isWhole ? "Tell siwatch these \(survey.good.grouped) sign-ins?" : "Tell siwatch these sign-ins?"
        try confirm(question, orElse: "nothing was written; repeat the command with --yes")
    }

    private func confirm(_ question: String, orElse advice: String) throws(CommandFailure) {
        if yes { return }
        guard file != "-", isatty(STDIN_FILENO) != 0 else { throw .wrongUsage(advice) }
        FileHandle.standardError.write(Data("\(question) [y/N] ".utf8))
        guard let answer = readLine()?.lowercased(), ["y", "yes"].contains(answer) else { throw .failed("not confirmed") }
    }

    /// Tells the samples and hears what Apple says of them.
    private func test(
        _ survey: ImportSurvey,
        of id: String,
        _ writer: inout ImportWriter,
        _ configuration: Configuration,
        _ store: any CredentialStore,
        _ line: ProgressLine
    ) async throws -> ImportTrial.Result? {
        let samples = survey.samples.map { $0.signIn }
        guard !samples.isEmpty else { return nil }
        for sample in samples { try await writer.add(sample) }
        let rows = try await writer.flush()
        try await writer.waitUntilSettled(rows)
        let result = try await ImportTrial(configuration: configuration, store: store, samples: samples).run(line)
        if !output.json { try printOutput(result.text) }
        guard !result.isGood else { return result }
        let advice = """
            \(result.text) The other lines were not told. Are the tokens whole, and is this the client that they were issued to? If they are \
            right and only old, repeat the command with --no-wait. siwatch import --undo \(id) takes the samples back
            """
        guard !yes else { throw CommandFailure.failed(advice) }
        try confirm("Tell the other lines all the same?", orElse: advice)
        return result
    }

    // MARK: The rest

    private func tell(
        _ file: inout ImportFile,
        _ survey: ImportSurvey,
        _ writer: inout ImportWriter,
        without sampled: Set<Int>,
        _ bad: BadLines,
        _ line: ProgressLine
    ) async throws {
        line.begin("importing", of: survey.isWhole ? survey.count : nil, "lines")
        defer { line.end() }
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
        _ = try await writer.flush()
    }

    struct Report: Encodable {
        var id: String
        var told = 0
        /// Rows that an earlier run of the import had told.
        var knownBefore = 0
        var bad = 0
        var trial: ImportTrial.Result?

        init(id: String) {
            self.id = id
        }

        var text: String {
            let known = knownBefore > 0 ? ", and \(knownBefore.grouped) before" : ""
            return """
                Import \(id): \(told.grouped) sign-ins told\(known). siwatch asks Apple about their tokens over one refresh.interval; siwatch \
                unverified lists those that Apple rejects. siwatch import --undo \(id) takes it back.
                """
        }
    }
}
