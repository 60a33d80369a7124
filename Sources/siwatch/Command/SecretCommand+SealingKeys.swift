// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing

extension SecretCommand {
    struct Rotate: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Puts a new sealing key above the others in encryption.key_file.",
            discussion: """
                Everything else in the file stays, and so do its mode and owner. After a reload siwatch seals under the new key, and seals anew \
                what stands under the old ones. Where the file is a link, a mount or somebody else's, nothing is changed, and the line to put \
                above the others is printed.
                """
        )

        /// A reload reads a copy again as it was at the start.
        static let takeOver = "reload siwatch; if the file is a systemd credential or a mount of Docker, restart siwatch"

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() throws {
            let configuration = try options.readConfiguration(opensDatabase: false)
            _ = try configuration.requireKeyRing()
            let new = KeyRing.generate()
            do {
                try configuration.changeKeyFile { try $0.add(new) }
            } catch let error as KeyFileError {
                guard case .fixed = error else { throw error.failure }
                try output.print(["line": new.line], new.line)
                let advice = "put this line above the others where the file comes from, on every host, keep a copy, and \(Self.takeOver)"
                throw CommandFailure.failed("\("\(error)".printable); \(advice)")
            }
            let (id, path) = (new.keyIDs[0], configuration.encryption.keyFile)
            try output.print(
                ["key_id": id, "key_file": path],
                """
                \(path.printable) has the new key \(id). Copy the file now, and keep the copy apart from the backups of the database.
                Then sudo systemctl reload siwatch. Of several siwatch, first give every host this file, then reload each.
                """
            )
        }
    }

    struct Retire: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Takes a sealing key out of encryption.key_file, once nothing stands under it.",
            discussion: """
                It counts in the database first, and refuses while anything under the key opens, or while a siwatch on the server \
                seals under another than the first. A backup from before opens with the key only: keep its copy as long as such a backup.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The id of the key.") var id: String

        func run() async throws {
            let configuration = try options.readConfiguration()
            let ring = try configuration.requireKeyRing()
            let path = configuration.encryption.keyFile.printable
            guard let place = ring.keyIDs.firstIndex(of: id) else {
                throw CommandFailure.failed("\(path) holds no key \(id.printable); it holds \(ring.keyIDs.joined(separator: ", "))")
            }
            try requireAnother(in: ring)
            // It notes what it counts.
            let lost = try await configuration.withStore(appends: true) { store in
                let replicas = try await store.fleet?.living.map(\.replica) ?? []
                if let late = replicas.first(where: { $0.sealingKeyID != ring.keyIDs[0] }) {
                    let siwatch = "the siwatch \(late.processID) on \(late.host.printable)"
                    let sentence = "\(siwatch) does not seal under the key \(ring.keyIDs[0]) yet"
                    throw CommandFailure.unavailable("\(sentence): give every host the same key file, and reload each siwatch")
                }
                let sealer = try configuration.sealer(of: store)
                return try await sealer.requireNothing(sealedUnder: id, in: store, at: Invocation.current.clock.now)
            }
            do {
                try configuration.changeKeyFile { file in
                    try requireAnother(in: file.ring)
                    try file.remove(id)
                }
            } catch let error as KeyFileError {
                guard case .fixed = error else { throw error.failure }
                let advice = "take key number \(place + 1) out where the file comes from, and \(Rotate.takeOver)"
                throw CommandFailure.failed("\("\(error)".printable); \(advice)")
            }
            let news = lost == 0 ? "" : " \(lost.counted("value", "values")) under it did not open, and had been lost before."
            try output.print(
                ["key_id": id, "key_file": configuration.encryption.keyFile, "lost": lost] as Members,
                "\(path) no longer holds the key \(id): sudo systemctl reload siwatch. Older backups of the database still need it.\(news)"
            )
        }

        private func requireAnother(in ring: KeyRing) throws(CommandFailure) {
            guard ring.keyIDs[0] == id else { return }
            throw .failed("the key \(id) is the first, which seals; siwatch secret rotate puts another above it")
        }
    }

    struct Abandon: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives up every token, because the sealing key is lost.",
            discussion: """
                siwatch has to be stopped. Users keep their states, and nobody is signed out. siwatch checks nobody until the next sign-in \
                brings a token. If the key file is gone, a new one is made. It refuses if the key file opens the database.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions
        @Flag(help: "Do not ask.") var yes = false

        func run() async throws {
            let configuration = try options.readConfiguration()
            let ring = try configuration.readKeyRing()
            let path = configuration.encryption.keyFile
            if !yes { try Terminal.requireYes("Give up every token in the database?", orElse: "nothing was given up") }
            let count = try await configuration.withStoreAlone { store in
                if try await store.fleet?.isAtWork == true { throw AppRenameError.inUse }
                guard let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) else {
                    throw CommandFailure.failed("the database has no key yet: no siwatch has run on it")
                }
                if let ring { try await ring.requireLoss(of: store, sealed, opening: path) }
                let new = try ring ?? KeyRing.create(at: path)
                return try await store.abandonTokens(fingerprintKey: CredentialSealer.newFingerprintKey(sealedBy: new))
            }
            let advice = "\n\(path.printable) is new: copy it now, and keep the copy apart from the backups of the database."
            let news = ring == nil ? advice : ""
            try output.print(
                ["tokens": count],
                "\(count.counted("token was", "tokens were")) given up. Every user keeps the state, and the next sign-ins bring tokens.\(news)"
            )
        }
    }
}

extension Configuration {
    fileprivate func requireKeyRing() throws(CommandFailure) -> KeyRing {
        if let ring = try readKeyRing() { return ring }
        throw .unusable(["encryption.key_file: \(encryption.keyFile) is not there"])
    }

    fileprivate func changeKeyFile(_ body: (inout KeyFileText) throws -> Void) throws {
        do {
            try KeyFile.change(encryption.keyFile, limit: Self.longestKeyRing) { text in
                var file = try KeyFileText(text)
                try body(&file)
                return file.text
            }
        } catch let error as KeyTextError {
            throw CommandFailure.unusable(["encryption.key_file: \(encryption.keyFile): \(error)"])
        }
    }
}

extension KeyRing {
    /// - Throws: `CommandFailure` unless the ring lacks a key that the database needs.
    fileprivate func requireLoss(of store: any CredentialStore, _ sealed: [UInt8], opening path: String) async throws {
        do {
            let sealer = try CredentialSealer(ring: self, sealedFingerprintKey: sealed)
            guard try await sealer.missingKey(in: store) == nil else { return }
        } catch SealingError.unknownKey(_) {
            return
        } catch let error as SealingError {
            let sentence = "the row \(CredentialSealer.fingerprintKeyName) of the table secret is \(error)"
            throw CommandFailure.failed("\(sentence); restore it from a backup. No token was given up")
        }
        throw CommandFailure.failed("\(path.printable) opens this database, so no token was given up")
    }
}

extension KeyFileError {
    fileprivate var failure: CommandFailure { .failed("\(self)".printable) }
}
