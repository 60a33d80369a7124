// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows queues, credentials and keys, whether or not the daemon runs.",
        discussion: """
            With --watch it shows them anew every second until Ctrl-C, with what is settled in a second. The exit code is 3 where no daemon \
            runs, or none has given a sign of life for a minute.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Flag(help: "Look again every second.") var watch = false

    func validate() throws {
        guard !(watch && output.json) else { throw ValidationError("--watch is for people and --json is for programs.") }
    }

    func run() async throws {
        let configuration = try options.readConfiguration()
        if watch { return try await StatusWatch(configuration: configuration).run() }
        let report = try await configuration.withStore { try await StatusReport(of: configuration, in: $0) }
        try output.print(report, StatusPage(report).lines.joined(separator: "\n"))
        // The code of `systemctl status` for a service that is not running.
        if !report.isRunning || report.isSilent { throw ExitCode(3) }
    }
}
