// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows what works and what does not, queues, credentials and keys, whether or not the daemon runs.",
        discussion: """
            The daemon says it itself. Where none answers, the command reads the tables. With --watch it asks again every second, until \
            Ctrl-C. The exit code is 0 if all is well, 1 if something is wrong that can wait for the \
            morning, and 2 if users lose something now or no siwatch works. With --line it exits as the plugins of Nagios do: 2 also if the \
            database cannot be used, and 3 if nothing is known.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Look again every second.") var watch = false
    @Flag(help: "Say in one line whether siwatch works, for probes.") var line = false

    func validate() throws {
        guard [watch, line, output.json].count(where: { $0 }) < 2 else {
            throw ValidationError("--watch is for people, --line for probes, and --json for programs: take one of them.")
        }
    }

    func run() async throws {
        while watch {
            // A terminal draws over the last page.
            let home = isatty(Invocation.current.console.output) == 0 ? "" : "\u{1b}[H\u{1b}[2J"
            let page = try await StatusSaid(options).text
            try Invocation.current.console.write(home)
            try printOutput("\(page)\n")
            try await Task.sleep(for: .seconds(1))
        }
        let said: StatusSaid
        do {
            said = try await StatusSaid(options)
        } catch let failure as CommandFailure where line {
            try conclude(failure)
        }
        try printOutput(line ? said.line : output.json ? said.json : said.text)
        try said.findings.conclude()
    }

    /// Nobody answers. With a configuration that can be read, it is the database that is at fault.
    private func conclude(_ failure: CommandFailure) throws -> Never {
        let isKnown = failure.code != ExitCode(64) && (try? options.readConfiguration(opensDatabase: false)) != nil
        try printOutput(isKnown ? "down: no siwatch answers, and \(failure)" : "unknown: \(failure)")
        throw ExitCode(isKnown ? Finding.Severity.down.exitCode : 3)
    }
}
