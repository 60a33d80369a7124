// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sets siwatch up on this host: asks, proves the answers, and starts it.",
        discussion: """
            Each answer is also an option. Nothing is written before the last answer, and no file is overwritten. A second run goes on \
            where the first one stopped. It changes no configuration, and says which of its options differ from the one that is there.
            """
    )

    @OptionGroup var options: InitOptions

    func run() async throws {
        try options.requireRights()
        let asks = !options.yes && Invocation.current.console.hasPerson
        let answers = try InitAnswers(options, asks: asks)
        let setUp = try SetUp(answers, options, asks: asks)
        if options.dryRun { return try printOutput(setUp.plan()) }
        try await setUp.carryOut()
    }
}
