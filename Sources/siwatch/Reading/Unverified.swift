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
            let apps = try await store.apps().map(\.app)
            guard apps.contains(app) else {
                throw CommandFailure(.unknownApp(known: apps), to: .recheckApp(app))
            }
            return (
                try await Self.pages { try await store.neverAcceptedTokens(of: app, after: $0?.credential, upTo: Self.pageLength) },
                try await Self.pages { try await store.foreignTokens(of: app, after: $0?.credential, upTo: Self.pageLength) }
            )
        }
        try output.print(Report(app: app, tokens: found, foreignTokens: foreign), text(found) + text(foreign))
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

    private struct Report: Encodable {
        var app: String
        var tokens: [NeverAcceptedToken]
        var foreignTokens: [AnsweredToken]
    }

    /// Two tables, split as in `status`: tokens with a repeated rejection, and tokens with a rejection that still waits.
    private func text(_ found: [NeverAcceptedToken]) -> String {
        func table(_ found: [NeverAcceptedToken]) -> String {
            Self.table("rejected", found.map { ($0.userID, $0.tokenGrantedAt, $0.rejectedAt, $0.clientID) })
        }
        let (repeated, waiting) = (found.filter(\.isRepeated), found.filter { !$0.isRepeated })
        var parts: [String] = []
        if !repeated.isEmpty {
            parts.append(
                "Apple rejects \(repeated.count.counted("token")) of \(app.printable) that it has never accepted:\n\n" + table(repeated)
            )
        }
        if !waiting.isEmpty {
            parts.append(
                "Of \(waiting.count.counted("token")) of \(app.printable) that Apple has never accepted the rejection waits to be believed:\n\n"
                    + table(waiting)
            )
        }
        guard !parts.isEmpty else { return "Apple rejects no token of \(app.printable) that it has never accepted." }
        return parts.joined(separator: "\n\n")
    }

    private func text(_ foreign: [AnsweredToken]) -> String {
        guard !foreign.isEmpty else { return "" }
        return
            "\n\nApple accepts \(foreign.count.counted("token")) of \(app.printable) as \(foreign.count == 1 ? "that of another user" : "those of other users"):\n\n"
            + Self.table("answered", foreign.map { ($0.userID, $0.tokenGrantedAt, $0.answeredAt, $0.clientID) })
    }

    static func table(_ answer: String, _ tokens: [(userID: String, grantedAt: Timestamp, answeredAt: Timestamp, clientID: String)])
        -> String
    {
        let width = max(tokens.map(\.userID.printable.count).max() ?? 0, 4)
        let head = "\("user".padded(to: width))  \("token of the sign-in".padded(to: 24))  \(answer.padded(to: 24))  client"
        let rows = tokens.map { token in
            "\(token.userID.printable.padded(to: width))  \(token.grantedAt.text.padded(to: 24))  "
                + "\(token.answeredAt.text.padded(to: 24))  \(token.clientID.printable)"
        }
        return ([head] + rows).joined(separator: "\n")
    }
}
