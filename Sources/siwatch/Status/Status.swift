// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows what works and what does not, queues, credentials and keys, whether or not the daemon runs.",
        discussion: """
            The daemon says it itself. Where none answers, the command reads the tables. With --watch it reads them anew every second until \
            Ctrl-C, with what is settled in a second. The exit code is 0 if all is well, 1 if something is wrong that can wait for the \
            morning, and 2 if users lose something now or no siwatch works.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Look again every second.") var watch = false

    func validate() throws {
        guard !(watch && output.json) else { throw ValidationError("--watch is for people and --json is for programs.") }
    }

    func run() async throws {
        if watch { return try await StatusWatch(configuration: options.readConfiguration()).run() }
        let said = try await StatusSaid(options)
        try printOutput(output.json ? said.json : said.text)
        try said.findings.conclude()
    }
}
