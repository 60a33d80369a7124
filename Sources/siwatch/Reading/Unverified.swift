// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore

struct Unverified: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Lists the tokens that Apple rejects and has never accepted, and those of other users.",
        discussion: """
            A token that Apple has never accepted was dead before it came here, was issued to another client, or is no token. It says \
            nothing of its user, who stays authorized and whose end notifications alone will tell. What to do about them is for the \
            backend to decide: nothing, or to let them sign in again, which brings a good token. A token of another user was inserted \
            under the wrong `sub`: its own user should bring it, and this one another.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Option(help: ArgumentHelp("The app whose tokens are listed.", valueName: "name")) var app: String

    func run() async throws {
        let (found, foreign) = try await options.readConfiguration().withStore { store in
            try await store.demand(app)
            return (
                try await Self.pages { try await store.neverAcceptedTokens(of: app, after: $0?.credential, upTo: Self.pageLength) },
                try await Self.pages { try await store.foreignTokens(of: app, after: $0?.credential, upTo: Self.pageLength) }
            )
        }
        try output.print(["app": app, "tokens": found, "foreignTokens": foreign] as Members, text(found, foreign))
    }

    static let pageLength = 1000

    /// Reads page after page, so that no query holds up the daemon for long.
    static func pages<Token>(_ page: (_ last: Token?) async throws -> [Token]) async throws -> [Token] {
        var tokens: [Token] = []
        while true {
            let next = try await page(tokens.last)
            tokens += next
            if next.count < pageLength { return tokens }
        }
    }

    /// A table for each kind: tokens with a repeated rejection, tokens with a rejection that still waits, and those of other users.
    private func text(_ found: [AnsweredToken], _ foreign: [AnsweredToken]) -> String {
        func rejected(_ isRepeated: Bool) -> [AnsweredToken] {
            found.filter { $0.isRepeated == isRepeated }
        }
        func part(_ answer: String, _ tokens: [AnsweredToken], _ sentence: (_ tokens: String) -> String) -> String? {
            guard !tokens.isEmpty else { return nil }
            return "\(sentence("\(tokens.count.counted("token")) of \(app.printable)")):\n\n\(Self.table(answer, tokens))"
        }
        let others = foreign.count == 1 ? "that of another user" : "those of other users"
        return [
            found.isEmpty ? "Apple rejects no token of \(app.printable) that it has never accepted." : nil,
            part("rejected", rejected(true)) { "Apple rejects \($0) that it has never accepted" },
            part("rejected", rejected(false)) { "Of \($0) that Apple has never accepted the rejection waits to be believed" },
            part("answered", foreign) { "Apple accepts \($0) as \(others)" },
        ].compactMap(\.self).joined(separator: "\n\n")
    }

    static func table(_ answer: String, _ tokens: [AnsweredToken]) -> String {
        let width = max(tokens.map(\.userID.printable.count).max() ?? 0, 4)
        let head = "\("user".padded(to: width))  \("token of the sign-in".padded(to: 24))  \(answer.padded(to: 24))  client"
        let rows = tokens.map { token in
            "\(token.userID.printable.padded(to: width))  \(token.tokenGrantedAt.text.padded(to: 24))  "
                + "\(token.answeredAt.text.padded(to: 24))  \(token.clientID.printable)"
        }
        return ([head] + rows).joined(separator: "\n")
    }
}
