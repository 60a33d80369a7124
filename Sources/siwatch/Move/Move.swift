// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialTables
import Foundation

struct Move: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Moves everything from an SQLite file to PostgreSQL, or back, and proves it.",
        discussion: """
            siwatch has to be stopped, on both sides. The destination is made where it is not there, and has to be empty. All is copied in one \
            transaction with its ids, read back from both sides and compared; only then is it committed. From then on nothing starts on the \
            source, and it takes no row any more. Where it fails, nothing has moved; where it was cut short, the same command finds out how far \
            it came, and goes on.

            Where --from or --to is left out, it is the database of the configuration, with its password. Others on this host can read a command \
            line: write no password there.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var progress: ProgressOptions
    @Option(help: ArgumentHelp("What is left: a file, or postgresql://user@host/database.", valueName: "file-or-url"), completion: .file())
    var from: String?
    @Option(help: ArgumentHelp("Where to: postgresql://user@host/database, or a file.", valueName: "file-or-url"), completion: .file())
    var to: String?
    @Option(help: "The schema, where an option names a PostgreSQL database. (default: siwatch)") var schema: String?

    func validate() throws {
        guard from != nil || to != nil else { throw ValidationError("--from or --to is missing.") }
        guard let schema else { return }
        guard ValueRule.isSchema(schema) else { throw ValidationError("--schema \(ValueRule.schemaForm).") }
        guard [from, to].contains(where: { $0.map(DatabaseLocation.isAddress) ?? false }) else {
            throw ValidationError("--schema goes with the address of a server; that of the configuration has its own, in database.schema.")
        }
    }

    func run() async throws {
        let began = ContinuousClock.now
        do {
            let ends = (from: try location(from, "--from"), to: try location(to, "--to"))
            try await withStores(ends.from, ends.to) { source, destination in
                let move = StoreMove(source: source, destination: destination, progress: progress.line(json: output.json))
                var report = Report(from: source.place, to: destination.place)
                if let departure = source.departure {
                    guard departure.destination == destination.place else { throw MoveRefusal.elsewhere(source.place, departure) }
                    report.isResumed = try await move.resolve(departure)
                }
                if !report.isResumed { report.proof = try await move.run(id: UUID().uuidString, at: Invocation.current.clock.now) }
                report.seconds = (ContinuousClock.now - began).inSeconds
                try output.print(report, report.page)
            }
        } catch {
            throw CommandFailure(move: error)
        }
    }

    private func location(_ text: String?, _ option: String) throws(CommandFailure) -> DatabaseLocation {
        guard let text else { return try options.readConfiguration().namedDatabase() }
        let location = DatabaseLocation(text, schema: schema ?? "siwatch")
        // libpq would quote text that it does not understand, and that text may be a password.
        guard location.isUnderstood else { throw .wrongUsage("\(option) is no address that libpq understands") }
        try options.leaveRoot(on: location)
        return location
    }
}

extension Move {
    struct Report: Encodable {
        var from: String
        var to: String
        /// Whether an earlier move that was cut short had arrived after all. Then nothing is left to prove.
        var isResumed = false
        var proof: MoveProof?
        var seconds = 0.0

        var page: String {
            let next = "No siwatch starts on \(from.printable) any more. Name \(to.printable) to siwatch and your backends, and start them."
            guard let proof else { return "\(from.printable) had moved to \(to.printable) before, and is now marked as moved. \(next)" }
            let rows = proof.tables.reduce(0) { $0 + $1.source.rows }
            let time = String(format: "%.1f s", seconds)
            let head = "\(from.printable) has moved to \(to.printable): \(rows.grouped) rows in \(time), read back from both:"
            return ([head, ""] + proof.lines + ["", next]).joined(separator: "\n")
        }
    }
}

extension CommandFailure {
    init(move error: any Error) {
        switch error {
        case MoveRefusal.nothing(let place): self = .failed("\(place.printable) holds no tables of siwatch")
        case MoveRefusal.notEmpty(let place, let tables):
            self = .failed(
                """
                \(place.printable) is not empty: \(tables.joined(separator: ", ")) \(tables.count == 1 ? "holds" : "hold") rows; nothing was \
                moved. Give another file, or the address with another --schema, or take away what is there
                """
            )
        case MoveRefusal.inUse(let place): self = .unavailable("a siwatch is at work on \(place.printable); stop it first")
        case MoveRefusal.elsewhere(let place, let departure):
            let way = "\(place.printable) is on the way to \(departure.destination.printable)"
            let next = "repeat the command with \(departure.option), or without --to where the configuration names it"
            self = .unusable(["\(way): \(next)"])
        case MoveRefusal.unreadable(let table, let column, let id):
            self = .failed(
                """
                \(table)\(id > 0 ? ", row \(id)" : ""): \(column) is not text or not a number that PostgreSQL can hold; nothing was moved. \
                siwatch run --once settles the queues, this row among them
                """
            )
        case StoreMove.Failure.notProved(let proof):
            self = .failed("what was read back is not what is in the source; nothing was moved")
            messages += proof.lines
        case StoreMove.Failure.unfinished(let departure, let error):
            self = CommandFailure(move: error)
            let question = "siwatch does not know yet whether the move to \(departure.destination.printable) was committed"
            messages.insert("\(question); no siwatch starts on the source: repeat this command, which finds out", at: 0)
        // No key of a configuration names this database.
        case let error as UnusableFile: self = .unusable(["\(error)".printable])
        default: self = CommandFailure(database: error)
        }
    }
}

extension Departure {
    /// The options that name the destination on a command line.
    fileprivate var option: String {
        guard let match = destination.wholeMatch(of: /(postgresql:.*), schema (\w+)/) else { return "--to \(destination.shellQuoted)" }
        return "--to \(String(match.1).shellQuoted) --schema \(match.2)"
    }
}
