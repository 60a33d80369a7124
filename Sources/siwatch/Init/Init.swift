// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sets siwatch up on this host: asks, proves the answers, and starts it.",
        discussion: """
            Each answer is also an option. Nothing is written before the last answer, and no file is overwritten. A second run goes on \
            where the first one stopped; it says where its options differ from the configuration, and changes nothing there.
            """
    )

    @OptionGroup var output: OutputOptions
    @OptionGroup var options: InitOptions

    func run() async throws {
        let path = options.configurationPath
        try options.requireRights()
        let existing = try InitAnswers.existing(at: path)
        if let existing {
            let differences = options.differences(from: existing)
            guard differences.isEmpty else {
                let webhook =
                    options.webhook != nil && existing.webhook.isEmpty
                    ? ["a webhook is a [[delivery]] table: \(Finding.page("webhooks.md"))"] : []
                throw CommandFailure(
                    code: .failure,
                    messages: differences + webhook
                        + ["siwatch init changes no configuration; edit \(path), then run it without these options"]
                )
            }
        }
        let asks = !options.yes && !output.json && Invocation.current.console.hasPerson
        var answers = try existing ?? InitAnswers(options, asks: asks)
        if existing != nil { try answers.askForBackendUser(options, asks: asks) }
        let setUp = try SetUp(answers, options, asks: asks)
        if options.dryRun { return try output.print(setUp.plan, setUp.plan.description) }
        if asks, existing == nil, DatabaseLocation.isAddress(answers.database) { try askForRoles() }
        let isQuiet = output.json
        let report = try setUp.carryOut { step in if !isQuiet { try? printOutput(step.text) } }
        try output.print(report, report.next.joined(separator: "\n"))
    }
}

extension Init {
    @inline(never)
    private func askForRoles() throws(CommandFailure) {
        try printOutput("Let an administrator run this in that database:\n\n\(ServerRoles.script)\n")
        try Terminal.ask("Press Enter when that is done", proposal: "") { _ throws(CommandFailure) in }
    }
}
