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

    @OptionGroup var request: AppRequestOptions

    func run() async throws {
        let app = request.app
        try await request.carryOut(.pause(app: app)) { answer in
            guard case .paused(let since) = answer else { return nil }
            let resume = "Resume it with: siwatch resume \(app.shellQuoted.printable)"
            return (["app": app, "pausedAt": since], "\(app.printable) is paused since \(since.text). \(resume)")
        }
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Asks Apple about the users of a paused app again.",
        discussion: "What has become due meanwhile is asked within the limits of [refresh]."
    )

    @OptionGroup var request: AppRequestOptions

    func run() async throws {
        let app = request.app
        try await request.carryOut(.resume(app: app)) { answer in
            guard case .resumed(let wasPaused) = answer else { return nil }
            return (["app": app, "wasPaused": wasPaused], "\(app.printable) \(wasPaused ? "goes on." : "was not paused.")")
        }
    }
}
