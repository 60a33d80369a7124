// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Revocations: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists the requests to revoke, and decides about those that wait because too many came.",
        discussion: """
            More requests to revoke in an hour than [revocations] allows reach the revocation limit of their app: siwatch holds the others \
            until you decide. siwatch status says how many. Ask the backends first whether they meant it, because only the user can undo a \
            revocation.
            """,
        subcommands: [List.self, Confirm.self, Drop.self]
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

        @OptionGroup var request: AppRequestOptions
        @Argument(help: "How many requests, oldest first, as siwatch status counts them.") var count: Int

        func validate() throws {
            guard count >= 0 else { throw ValidationError("The count must not be negative.") }
        }

        func run() async throws {
            try await request.decide(.confirmRevocations(app: request.app, count: count)) {
                "\($0.counted("request is", "requests are")) carried out from now on."
            }
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "The requests are not meant: rejects all that wait.",
            discussion: "Each has its receipt: rejected, dropped. Nothing is revoked. Later requests are counted anew."
        )

        @OptionGroup var request: AppRequestOptions

        func run() async throws {
            try await request.decide(.dropRevocations(app: request.app)) { "\($0.counted("request is", "requests are")) rejected." }
        }
    }
}

extension AppRequestOptions {
    fileprivate func decide(_ request: OperatorRequest, _ words: (Int) -> String) async throws {
        try await carryOut(request) { answer in
            guard case .revocationsReleased(let count, let left) = answer else { return nil }
            let rest = left == 0 ? "holds none any more, unless more has come." : "still holds \(left) more."
            let text = "\(words(count)) The revocation limit of \(app.printable) \(rest)"
            return (["app": app, "count": count, "left": left], text)
        }
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
