// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation
import SQLiteStore

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes one consistent copy of the database, while everything runs.",
        discussion: """
            The copy is a file of its own that needs no -wal. It holds the `sub`s and e-mail addresses of your users, and in grant_queue \
            the tokens of sign-ins that were waiting, in clear. The sealing key is not in it: keep that apart.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The file to write; it must not exist yet.", completion: .file()) var file: String

    func run() async throws {
        let configuration = try options.readConfiguration()
        try await configuration.withStore { try await $0.backUp(to: file) }
        let size = (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? 0
        try output.print(
            Report(file: file, bytes: size, keyFile: configuration.encryption.keyFile),
            """
            \(file.printable): \(size) bytes.
            Keep a copy of \(configuration.encryption.keyFile) too, and keep it apart from this file: whoever has both has the refresh \
            tokens, and without the key nobody has.
            """
        )
    }

    private struct Report: Encodable {
        var file: String
        var bytes: Int
        /// Not in the backup, and needed to restore it.
        var keyFile: String
    }
}
