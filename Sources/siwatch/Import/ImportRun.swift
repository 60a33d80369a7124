// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct ImportRun {
    private let command: Import
    private let configuration: Configuration
    private let store: any CredentialStore
    private let bad: BadLines
    private let line: ProgressLine
    private var file: ImportFile
    private let survey: ImportSurvey
    private var writer: ImportWriter
    private(set) var report: Import.Report

    /// Reads the file before anything is told.
    init(_ command: Import, _ configuration: Configuration, _ store: any CredentialStore, _ bad: BadLines) async throws {
        (self.command, self.configuration, self.store, self.bad) = (command, configuration, store, bad)
        line = command.progress.line(json: command.output.json)
        let clock = try await FleetMembership.clock(of: store)
        // The database knows a new client once siwatch has read the configuration. It also knows clients that the configuration has lost.
        let known = Set(try await store.clients().map(\.clientID)).intersection(configuration.clientIDs)
        let (client, time) = (command.clientID, command.grantedAt)
        var rules = ImportColumns.Rules(clientID: client, grantedAt: time, anyID: command.anyID, known: known, now: clock.now)
        rules.source = command.from
        file = try ImportFile(command.file ?? "-", rules)
        survey = try file.survey(line)
        writer = ImportWriter(store, importID: file.id, waits: !command.noWait, clock: clock)
        report = Import.Report(id: file.id)
    }

    /// - Returns: why the command fails although it has a report; nil if it does not.
    mutating func carryOut() async throws -> CommandFailure? {
        // The same regular file is the same import. Of a pipe siwatch knows only the beginning.
        if file.size == nil {
            let id = file.id
            report.firstToldAt = try await store.toldImports().first { $0.importID == id && $0.signIns > 0 }?.from.text
        }
        try present()
        if !(command.noTrial && command.noWait) { try await requireSiwatch() }
        try file.requireUnchanged()
        let samples = command.noTrial ? [] : survey.samples
        var failure: CommandFailure?
        if !samples.isEmpty {
            let result = try await test(samples.map { $0.signIn })
            report.trial = result
            failure = verdict(on: result)
        }
        if failure == nil {
            do {
                failure = try await tell(without: Set(samples.map { $0.line }))
                if failure == nil { try await writer.finish() }
                if failure == nil, !command.noWait { report.retold = try? await retold() }
            } catch let thrown as CommandFailure {
                failure = thrown
            }
        }
        (report.told, report.knownBefore, report.tokens, report.bad) = (writer.told, writer.known, writer.tokens, bad.count)
        return failure
    }

    // MARK: Before the first row

    /// Shows what was found, and asks.
    private func present() throws(CommandFailure) {
        guard survey.unknownClients.isEmpty else { throw ImportColumns.unknownClients(survey.unknownClients) }
        if !command.output.json {
            // With --yes nobody looks, and the lines would end in the log of a job.
            try printOutput((command.yes ? "" : "\(survey.lines)\n\n") + "\(survey.verdict)\nImport \(file.id).")
            if let toldBefore = report.firstToldAt {
                try printOutput(
                    """
                    A pipe that began with the same 64 KiB was told at \(toldBefore). This one is taken for the same import: its known \
                    lines are left out, and --undo takes both back. If it is another import, name a column in its first line that siwatch \
                    ignores.
                    """
                )
            }
        }
        guard survey.good > 0 else {
            let sentence = "\(file.name) has no good line; nothing was written"
            let reasons = [survey.end, survey.strangers].compactMap(\.self) + survey.firstBad.map(\.text)
            throw CommandFailure(code: ExitCode(64), messages: [sentence] + reasons)
        }
        if command.yes { return }
        let number = survey.isWhole && survey.good > 1 ? "\(survey.good.grouped) " : ""
        try Terminal.requireYes("Tell siwatch these \(number)sign-ins?", orElse: "nothing was written")
    }

    /// - Throws: if nobody would take the rows, or ask Apple about the samples.
    private func requireSiwatch() async throws {
        guard try await store.fleet?.isAtWork ?? configuration.namedDatabase().isLocked else {
            throw CommandFailure.unavailable(
                "siwatch does not run, so nothing was written: start it, or tell all lines unseen with --no-trial --no-wait"
            )
        }
    }

    /// Tells the samples and hears what Apple says of them.
    private mutating func test(_ samples: [ToldSignIn]) async throws -> ImportTrial.Result {
        let clients = Set(samples.map(\.clientID))
        let paused = try await store.apps().filter { $0.pausedAt != nil }.map(\.app)
        if let app = configuration.apps.first(where: { paused.contains($0.name) && !clients.isDisjoint(with: $0.clientIDs) }) {
            throw ImportTrial.paused(app.name)
        }
        for sample in samples { try await writer.add(sample) }
        let rows = try await writer.flush()
        try await writer.waitUntilSettled(rows)
        let outcomes = try await store.signInOutcomes(rows).values.filter { $0.logged == .retold }
        let retold = Set(outcomes.map { CredentialID(clientID: $0.clientID, userID: $0.userID ?? "") })
        let result = try await ImportTrial(configuration: configuration, store: store, samples: samples, retold: retold).run(line)
        if !command.output.json { try printOutput(result.text) }
        return result
    }

    /// Why the other lines are not told; nil if they are.
    private func verdict(on result: ImportTrial.Result) -> CommandFailure? {
        if result.isGood { return nil }
        if !command.yes, Terminal.confirms("Tell the other lines all the same?") == true { return nil }
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
            right and only old, repeat the command with --no-trial. siwatch rejected NAME lists the samples that Apple rejects, and \
            siwatch import --undo takes them back
            """
        )
    }

    // MARK: The rest

    /// How many rows of this run, and of the earlier one that it repeats, changed nothing.
    private func retold() async throws -> Int {
        line.begin("looking at the outcomes", of: writer.batches.count, "batches")
        defer { line.end() }
        var count = 0
        for rows in writer.batches {
            count += try await store.retoldSignIns(among: rows)
            line.add()
        }
        return count
    }

    /// - Returns: why it has not told the rest of the file; nil if it has come to the end.
    private mutating func tell(without sampled: Set<Int>) async throws -> CommandFailure? {
        line.begin("importing", of: survey.isWhole ? survey.count : nil, "lines")
        defer { line.end() }
        var failure: CommandFailure?
        while true {
            let next: CSVRecord?
            do throws(CommandFailure) {
                next = try file.next()
            } catch {
                // The lines before a failure are good, but those of a changed file may be anything.
                if file.hasChanged { return error }
                failure = error
                break
            }
            guard let record = next else { break }
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
        return failure
    }
}

extension Import {
    struct Report: Encodable {
        var id: String
        var told = 0
        /// Rows that an earlier run of the import had told.
        var knownBefore = 0
        /// Rows of this run or of the earlier one that brought the token of an earlier sign-in, and so changed nothing. Nil if siwatch was not
        /// waited for, or if that could not be read.
        var retold: Int?
        /// Lines of this run that bring a token.
        var tokens = 0
        var bad = 0
        /// When siwatch was first told a pipe of the same beginning; nil if never.
        var firstToldAt: String?
        var trial: ImportTrial.Result?

        var text: String {
            let known = knownBefore > 0 ? ", and \(knownBefore.grouped) before" : ""
            var effect = ""
            if let retold, retold > 0 {
                effect = """
                     \(retold.grouped) of them changed nothing (retold): siwatch has their tokens from earlier sign-ins. If those earlier times \
                    were too early, import the lines with their true times and an empty refresh_token: a time that is too late hides a \
                    revocation.
                    """
            }
            if tokens > 0 {
                effect += """
                     siwatch asks Apple about their tokens over one refresh.interval; siwatch rejected NAME lists those that Apple \
                    rejects.
                    """
            }
            return """
                Import \(id): \(told.grouped) sign-ins told\(known).\(effect) siwatch import --undo \(id) takes the import back.
                """
        }
    }
}
