// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Breaker: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Says that Apple's rejections of tokens are real, or not.",
        discussion: """
            The breaker of an app opens when Apple rejects too many tokens, rejects a canary, or blames the configuration. While it is open \
            no rejection changes anybody's state, and Apple is asked slowly. It closes by itself when the answers are normal again. \
            siwatch status shows it, and siwatch rejected lists the users.
            """,
        subcommands: [Confirm.self, Reset.self]
    )
}

extension Breaker {
    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "The rejections are real: closes the breaker and believes them.",
            discussion: """
                All rejections that wait are believed now, those of clients of which Apple has accepted no token among them. About those \
                that the breaker has dropped Apple is asked again, an hour after its last answer at the soonest: it is believed if it \
                rejects the token once more. Where there were too many rejections, now or in the last two days, their number neither \
                opens the breaker nor alerts for an interval; a canary or blame does open it.
                """
        )

        @OptionGroup var request: AppRequestOptions

        func run() async throws {
            let app = request.app
            try await request.carryOut(.confirmRejections(app: app)) { answer in
                guard case .rejectionsConfirmed(let now, let next, let wasOpen, let isPaused) = answer else { return nil }
                var text = "The breaker of \(app.printable) \(wasOpen ? "is" : "was") closed."
                if now > 0 { text += " The rejections of \(now.counted("user")) are believed now." }
                if next > 0 {
                    text += " Apple is asked again about \(next.counted("user")), an hour after its last answer at the soonest,"
                    text += " and is believed if it rejects them once more."
                }
                if isPaused { text += Recheck.paused }
                return (["app": app, "now": now, "next": next, "wasOpen": wasOpen, "isPaused": isPaused], text)
            }
        }
    }

    struct Reset: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Closes the breaker and forgets what it has seen.",
            discussion: "No rejection is believed for that. It opens again if the answers stay as they are."
        )

        @OptionGroup var request: AppRequestOptions

        func run() async throws {
            let app = request.app
            try await request.carryOut(.resetBreaker(app: app)) { answer in
                guard case .breakerReset(let wasOpen) = answer else { return nil }
                let end = wasOpen ? "is closed." : "was closed; it begins anew."
                return (["app": app, "wasOpen": wasOpen], "The breaker of \(app.printable) \(end)")
            }
        }
    }
}
