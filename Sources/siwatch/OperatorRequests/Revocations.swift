// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Revocations: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Decides about the requests to revoke that wait because too many came.",
        discussion: """
            More requests to revoke in an hour than [revocations] allows reach the revocation limit of their app: siwatch holds the others \
            until you decide. siwatch status says how many. Ask the backends first whether they meant it, because only the user can undo a \
            revocation.
            """,
        subcommands: [Confirm.self, Drop.self]
    )
}

extension Revocations {
    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "The requests are meant: carries them out.",
            discussion: """
                Requests that come after you have looked wait for another word, so name how many you know of. A request whose user has \
                signed in since ends as superseded. The revocation limit is lifted once it holds none; then requests are counted anew.
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
            ? "The revocation limit of \(app.printable) holds none any more, unless more has come."
            : "The revocation limit of \(app.printable) still holds \(left) more."
        try output.print(["app": app, "count": count, "left": left] as Members, "\(words(count)) \(end)")
    }
}

extension AppStatus {
    /// That the revocation limit holds requests to revoke, and what to do; nil if it is not reached.
    var revocationLimit: String? {
        guard let revocationsHeldSince else { return nil }
        let requests = "\(revocationsHeldSince.text) and holds \(revocationsHeld.counted("request"))"
        let argument = app.shellQuoted.printable
        return "\(app.printable): the revocation limit is reached since \(requests); "
            + "siwatch revocations confirm \(argument) \(revocationsHeld) carries out so many, siwatch revocations drop \(argument) rejects all"
    }
}
