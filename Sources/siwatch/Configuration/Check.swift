// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import BackendAPI
import Logging

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks the configuration, the keys and the database, and changes nothing in them.",
        discussion: """
            Exits with 78 and one line for each mistake, or with 0. With --online it also looks at the way to Apple, at the clock, and asks Apple \
            about each client: whether its id, the team and the key belong together. That touches no user. It exits with 78 if Apple refuses a \
            client, and with 69 if Apple gives no usable answer.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Ask Apple, too, whether each client id, the team and the key belong together.") var online = false

    func run() async throws {
        let configuration = try options.readConfiguration(opensDatabase: false)
        let examination = await Examination(configuration)
        if let failure = examination.failure { throw failure }
        guard examination.mistakes.isEmpty, let database = examination.database else {
            throw CommandFailure.unusable(examination.mistakes)
        }
        for finding in examination.findings {
            printError("warning: \([finding.sentence, finding.remedy].compactMap(\.self).joined(separator: "; "))", at: .warning)
        }
        try printSummary(of: configuration, examination.keys, database, isThere: examination.isThere)
        if online { try await OnlineCheck.run(configuration, examination.keys?.clientSecretKeys) }
    }

    private func printSummary(of configuration: Configuration, _ keys: Keys?, _ database: DatabaseLocation, isThere: Bool) throws {
        try printOutput("\(configuration.source) is good.")
        for app in configuration.apps {
            let clients = app.clientIDs.joined(separator: ", ")
            try printOutput("  app \(app.name.printable): \(clients); signed with key \(app.keys[0].id) of team \(app.teamID)")
        }
        if let listen = configuration.http.listen {
            let clients = configuration.http.clients.map {
                "\($0.name.printable) (\(Set($0.may).map(\.rawValue).sorted().joined(separator: ", ")))"
            }
            try printOutput("  HTTP door \("\(listen)".printable): \(clients.joined(separator: ", "))")
        }
        for delivery in configuration.deliveries {
            let authority = delivery.caFile.map { "; certified by an authority in \($0.printable)" } ?? ""
            try printOutput("  delivery \(delivery.name.printable): \(delivery.shownURL)\(authority)")
        }
        let holder = database.lockHolder.map { ", and \($0) works on it" } ?? ""
        try printOutput("  database \(database.name): \(isThere ? "usable\(holder)" : database.absence)")
        if let keys, keys.ring == nil {
            try printOutput("  key \(configuration.encryption.keyFile): not there yet; siwatch migrate creates it")
        }
    }
}
