// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialSealing

struct Key: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Makes a sealing key, and tells what backends need of it.",
        subcommands: [New.self, Public.self]
    )
}

extension Key {
    struct New: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Makes a sealing key, for platforms that keep secrets outside of the host.",
            discussion: """
                With a file, the key goes there, with mode 0600, and an existing file is left alone. Without, it is printed. Elsewhere you \
                need no such command, because siwatch migrate makes the key. Keep a copy: nobody can make the same key again.
                """
        )

        @Argument(help: "The new file.", completion: .file())
        var file: String?

        func run() throws {
            guard let file else { return try printOutput(String(KeyRing.generate().text.dropLast())) }
            do {
                _ = try KeyRing.create(at: file)
            } catch {
                throw CommandFailure.failed("\(error)".printable)
            }
        }
    }

    struct Public: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Prints the public key to which backends may seal tokens.",
            discussion: """
                It belongs to the first key of encryption.key_file and is no secret. A token that is sealed to it stands in no queue in clear; \
                docs/schema.md says how to seal one. What was sealed to it opens as long as that key stays in the file.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() throws {
            let configuration = try options.readConfiguration(opensDatabase: false)
            guard let ring = try Keys(configuration).ring else {
                throw CommandFailure.unusable([
                    "encryption.key_file: \(configuration.encryption.keyFile) is not there yet; siwatch migrate creates it"
                ])
            }
            try output.print(["public_key": ring.publicKey], ring.publicKey)
        }
    }
}
