// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Holds the checks and the revocations of an app, until it is resumed.",
        discussion: """
            It holds across restarts and changes nobody's state: sign-ins and notifications of the app are taken as ever, and what is due \
            stays due. Codes are exchanged too, because they live five minutes and somebody is signing in.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app's name in the configuration.") var app: String

    func run() async throws {
        let request = OperatorRequest.pause(app: app)
        let answer = try await request.carryOut(in: try options.readConfiguration())
        guard case .paused(let since) = answer else { throw CommandFailure(answer, to: request) }
        try output.print(
            AppStatus(app: app, pausedAt: since),
            "\(app.printable) is paused since \(since.text). Resume it with: siwatch resume \(app.shellQuoted.printable)"
        )
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Asks Apple about the users of a paused app again.",
        discussion: "What has become due meanwhile is asked within the limits of [refresh]."
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app's name in the configuration.") var app: String

    func run() async throws {
        let request = OperatorRequest.resume(app: app)
        let answer = try await request.carryOut(in: try options.readConfiguration())
        guard case .resumed(let wasPaused) = answer else { throw CommandFailure(answer, to: request) }
        try output.print(AppStatus(app: app, pausedAt: nil), wasPaused ? "\(app.printable) goes on." : "\(app.printable) was not paused.")
    }
}
