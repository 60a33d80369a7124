// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

struct HTTPCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "http",
        abstract: "Makes what the HTTP door needs.",
        subcommands: [Token.self]
    )
}

extension HTTPCommand {
    struct Token: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Makes a token for an [[http.client]].",
            discussion: """
                32 random bytes, in base64url. With a file, it goes there, with mode 0600, and an existing file is left alone; the backend \
                needs a copy of it. Without, it is printed.
                """
        )

        @Argument(help: "The new file.", completion: .file())
        var file: String?

        func run() throws {
            try NewSecret.httpToken.hand(out: file)
        }
    }
}
