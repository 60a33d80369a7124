// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import ArgumentParser
import CredentialCore
import CredentialSealing
import Foundation
import Logging

struct SecretCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "secret",
        abstract: "Makes tokens, secrets and keys, and what follows from them.",
        subcommands: [New.self, Client.self, PublicKey.self, Rotate.self, Retire.self, Abandon.self]
    )
}

extension SecretCommand {
    struct New: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Makes a token of an [[http.client]], a webhook secret of a [[delivery]], or a sealing key.",
            discussion: """
                With a file, the secret goes there, with mode 0600, and an existing file is left alone; a backend needs a copy of its token or \
                webhook secret. Without, it is printed. A sealing key is made here only for platforms that keep secrets outside of the host, \
                because siwatch migrate makes one. Keep a copy of it: nobody can make the same key again.
                """
        )

        @Argument(help: "What to make: token, webhook or sealing-key.") var kind: NewSecret
        @Argument(help: "The new file.", completion: .file()) var file: String?

        func run() throws {
            guard let file else { return try printOutput(kind.make()) }
            do { try KeyFile.create("\(kind.make())\n", at: file) } catch { throw CommandFailure.failed("\(error)".printable) }
        }
    }

    struct Client: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Prints a client secret for a service that wants one pasted, such as Supabase or Firebase.",
            discussion: """
                A JWT, signed with the first key of the client's app. Standard error has the day on which it ends: sign-ins there fail from \
                then on, so paste another one before. A person who has it can act as the client at Apple until that day, or until the key is revoked. \
                siwatch itself needs none.
                """
        )

        private static let mostDays = Int(ClientSecrets.longestLifetime.components.seconds) / 86_400

        @OptionGroup var options: CommonOptions
        @Argument(help: "A bundle id or Services ID of the configuration.") var clientID: String
        @Option(help: "For how many days it is good, from 1 to 182.") var days = 180

        func validate() throws {
            guard (1...Self.mostDays).contains(days) else { throw ValidationError("--days is a number from 1 to \(Self.mostDays)") }
        }

        func run() async throws {
            let configuration = try options.readConfiguration(opensDatabase: false)
            guard let app = configuration.apps.first(where: { $0.clientIDs.contains(clientID) }) else {
                let known = configuration.apps.flatMap(\.clientIDs).map(\.printable).joined(separator: ", ")
                throw CommandFailure.wrongUsage("no app of the configuration has the client \(clientID.printable); there is \(known)")
            }
            let key = try Keys(configuration).clientSecretKeys[app.name]![0]
            let secrets = ClientSecrets(teamID: app.teamID, key: key, clock: Invocation.current.clock)
            let (secret, end) = try await secrets.secret(for: clientID, lasting: .days(days))
            try printOutput(secret.reveal)
            printError("ends on \(end.text.prefix(10)), at \(end.text.dropFirst(11).prefix(5)) UTC: paste another one before", at: .notice)
        }
    }

    struct PublicKey: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Prints the public keys to which backends may seal tokens, one on a line.",
            discussion: """
                There is one for each key of encryption.key_file and for this database alone. They are no secrets. Seal to the first. \
                Each siwatch on a server holds its key; on a file, take it after the reload that follows a rotation. A sealed token \
                stands in no queue in clear; docs/schema.md says how to seal one. What was sealed to a public key opens as long as its key \
                stays in the file.
                """
        )

        @OptionGroup var options: CommonOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let configuration = try options.readConfiguration()
            let keys = try await configuration.withStore { store in
                let sealer = try configuration.sealer(of: store)
                sealer.share(with: try await store.fleet?.living.compactMap(\.replica.keyIDs) ?? [])
                return sealer.publicKeys
            }
            try output.print(["publicKey": keys[0], "publicKeys": keys] as Members, keys.joined(separator: "\n"))
        }
    }
}

enum NewSecret: String, CaseIterable, ExpressibleByArgument {
    /// For an `[[http.client]]`.
    case token
    /// For a `[[delivery]]`, as Standard Webhooks writes it.
    case webhook
    case sealingKey = "sealing-key"

    func make() -> String {
        switch self {
        case .token: Self.random.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        case .webhook: "whsec_\(Self.random)"
        case .sealingKey: String(KeyRing.generate().text.dropLast())
        }
    }

    private static var random: String {
        var generator = SystemRandomNumberGenerator()
        return Data((0..<32).map { _ in UInt8.random(in: .min ... .max, using: &generator) }).base64EncodedString()
    }
}
