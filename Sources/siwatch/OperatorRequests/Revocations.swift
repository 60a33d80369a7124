// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Revocations: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Shows which requests to revoke wait because too many came, and decides about them.",
        discussion: """
            More requests to revoke in an hour than [revocations] allows set the brake of their app: siwatch holds the others until you \
            decide. Ask the backends first whether they meant it, because only the user can undo a revocation.
            """,
        subcommands: [Show.self, Confirm.self, Drop.self],
        defaultSubcommand: Show.self
    )
}

extension Revocations {
    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the brake of every app."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let apps = try await options.readConfiguration().withStore { try await $0.apps() }
            let report = apps.map { ["app": $0.app, "setAt": $0.revocationsBrakedAt, "held": $0.revocationsHeld] as Members }
            try output.print(["brakes": report], apps.map(\.brake).joined(separator: "\n"))
        }
    }

    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "The requests are meant: carries them out.",
            discussion: """
                Requests that come after you have looked wait for another word, so name how many you know of. A request whose user has \
                signed in since ends as superseded. The brake is released once it holds none; then requests are counted anew.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app's name in the configuration.") var app: String
        @Argument(help: "How many requests, oldest first, as siwatch status counts them.") var count: Int

        func validate() throws {
            guard count >= 0 else { throw ValidationError("The count must not be negative.") }
        }

        func run() async throws {
            try await Revocations.decide(.confirmRevocations(app: app, count: count), options, output) { count in
                count == 1 ? "1 request is carried out from now on." : "\(count) requests are carried out from now on."
            }
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "The requests are not meant: rejects all that wait.",
            discussion: "Each has its receipt: rejected, dropped. Nothing is revoked. Later requests are counted anew."
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app's name in the configuration.") var app: String

        func run() async throws {
            try await Revocations.decide(.dropRevocations(app: app), options, output) { count in
                count == 1 ? "1 request is rejected." : "\(count) requests are rejected."
            }
        }
    }

    private static func decide(
        _ request: OperatorRequest,
        _ options: CommonOptions,
        _ output: OutputOptions,
        _ words: (Int) -> String
    ) async throws {
        let answer = try await request.carryOut(in: try options.readConfiguration())
        guard case .revocationsReleased(let count, let left) = answer else { throw CommandFailure(answer, to: request) }
        let app = request.app ?? ""
        let end =
            left == 0
            ? "The brake of \(app.printable) is released, unless more has come."
            : "The brake of \(app.printable) stays set and holds \(left) more."
        try output.print(["app": app, "count": count, "left": left] as Members, "\(words(count)) \(end)")
    }
}
