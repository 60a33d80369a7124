// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Rejected: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists the tokens of an app that Apple rejects or calls another user's, and that end nobody.",
        discussion: """
            A rejection that siwatch does not believe yet may be real: ask such a user, then decide by siwatch breaker.

            A token that Apple has never accepted was dead before it came here, was issued to another client, or is no token. It says \
            nothing of its user, who stays authorized and whose end notifications alone will tell. What to do about them is for the \
            backend to decide: nothing, or to let them sign in again, which brings a good token. A token of another user was inserted \
            under the wrong `sub`: its own user should bring it, and this one another.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app's name in the configuration.") var app: String

    func run() async throws {
        let (doubted, found, foreign) = try await options.readConfiguration().withStore { store in
            try await store.demand(app)
            return (
                try await Self.pages { try await store.doubtedTokens(of: app, after: $0, upTo: Self.pageLength) },
                try await Self.pages { try await store.neverAcceptedTokens(of: app, after: $0, upTo: Self.pageLength) },
                try await Self.pages { try await store.foreignTokens(of: app, after: $0, upTo: Self.pageLength) }
            )
        }
        try output.print(
            ["app": app, "doubted": doubted, "neverAccepted": found, "foreign": foreign] as Members,
            text(doubted, found, foreign)
        )
    }

    private static let pageLength = 1000

    /// Reads page after page, so that no query holds up the daemon for long.
    private static func pages(_ page: (_ last: CredentialID?) async throws -> [AnsweredToken]) async throws -> [AnsweredToken] {
        var tokens: [AnsweredToken] = []
        while true {
            let next = try await page(tokens.last?.credential)
            tokens += next
            if next.count < pageLength { return tokens }
        }
    }

    /// A table for each kind. A token that Apple has never accepted may have a repeated rejection, or one that still waits.
    private func text(_ doubted: [AnsweredToken], _ found: [AnsweredToken], _ foreign: [AnsweredToken]) -> String {
        func part(_ answer: String, _ tokens: [AnsweredToken], _ sentence: (_ tokens: String) -> String) -> String? {
            guard !tokens.isEmpty else { return nil }
            return "\(sentence("\(tokens.count.counted("token")) of \(app.printable)")):\n\n\(Self.table(answer, tokens))"
        }
        let others = foreign.count == 1 ? "that of another user" : "those of other users"
        let parts = [
            part("rejected", doubted) { "Apple rejects \($0), which siwatch does not believe" },
            part("rejected", found.filter { $0.isRepeated == true }) { "Apple rejects \($0) that it has never accepted" },
            part("rejected", found.filter { $0.isRepeated == false }) {
                "Of \($0) that Apple has never accepted the rejection waits to be believed"
            },
            part("answered", foreign) { "Apple accepts \($0) as \(others)" },
        ].compactMap(\.self)
        return parts.isEmpty ? "There is no such token of \(app.printable)." : parts.joined(separator: "\n\n")
    }

    private static func table(_ answer: String, _ tokens: [AnsweredToken]) -> String {
        let width = max(tokens.map(\.userID.printable.count).max() ?? 0, 4)
        let head = "\("user".padded(to: width))  \("token of the sign-in".padded(to: 24))  \(answer.padded(to: 24))  client"
        let rows = tokens.map { token in
            "\(token.userID.printable.padded(to: width))  \(token.tokenGrantedAt.text.padded(to: 24))  "
                + "\(token.answeredAt.text.padded(to: 24))  \(token.clientID.printable)"
        }
        return ([head] + rows).joined(separator: "\n")
    }
}
