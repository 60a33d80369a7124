// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import ArgumentParser
import CredentialCore
import Logging

struct ClientSecretCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "client-secret",
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
