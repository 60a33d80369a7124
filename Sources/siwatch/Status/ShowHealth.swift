// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct ShowHealth: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Says in one line whether siwatch works, for probes.",
        discussion: "Exits as the plugins of Nagios do: 0 healthy, 1 degraded, 2 down, 3 unknown."
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        let said: StatusSaid
        do {
            said = try await StatusSaid(options)
        } catch let failure as CommandFailure {
            // Nobody answers. With a configuration that can be read, it is the database that is at fault.
            guard failure.code != ExitCode(64), (try? options.readConfiguration(opensDatabase: false)) != nil else {
                try printOutput("unknown: \(failure)")
                throw ExitCode(3)
            }
            try printOutput("down: no siwatch answers, and \(failure)")
            throw ExitCode(Finding.Severity.down.exitCode)
        }
        let sentence = said.findings.first { $0.severity > .note }?.sentence
        try printOutput([said.findings.worst.health, sentence].compactMap(\.self).joined(separator: ": "))
        try said.findings.conclude()
    }
}
