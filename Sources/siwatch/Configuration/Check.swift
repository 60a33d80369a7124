// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import BackendAPI
import CredentialCore
import CredentialSealing
import Foundation
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
        var mistakes: [String] = []
        var rounds: [AppRound] = []
        var otherTeams: [OtherTeam] = []
        var unknownCanaries = configuration.apps.flatMap { app in app.canaries.map { UnknownCanary(app: app.name, userID: $0) } }
        var keys: Keys?
        // The daemon can read them, and does at each reload.
        let hiddenKeys =
            FileNames.areCredentialsHidden ? configuration.keyFiles.filter { !FileManager.default.fileExists(atPath: $0) } : []
        do {
            keys = try Keys(configuration)
        } catch {
            mistakes += error.messages.filter { message in !hiddenKeys.contains { message.contains($0) } }
        }
        let database: DatabaseLocation
        do {
            database = try configuration.namedDatabase()
        } catch {
            throw CommandFailure.unusable(mistakes + error.messages)
        }
        var isThere = false
        // Reading mends it.
        let cut = database.cutMemory.map { ["\(database.place): \($0)"] } ?? []
        var warnings: [String] = []
        var obstacles = database.obstacles(besideKey: configuration.encryption.keyFile)
        do {
            let server = try database.examineServer(clockSkew: configuration.queues.clockSkew)
            obstacles += server.obstacles
            warnings = cut + server.warnings + (database.space?.warning.map { ["\(database.place): \($0)"] } ?? [])
            isThere = try server.obstacles.isEmpty && database.exists()
            // Reading beside a daemon needs the right to write too.
            if isThere, obstacles.isEmpty {
                let insertObstacle: String?
                (unknownCanaries, rounds, otherTeams, insertObstacle) = try await examine(database, configuration, keys)
                if let weakness = database.insertWeakness { warnings.append("\(database.place): \(weakness)") }
                if let insertObstacle { warnings.append("\(database.place): backends cannot insert: \(insertObstacle)") }
            }
        } catch let error as UnusableFile where error.isUnreadable && !obstacles.isEmpty {
            // An obstacle already gives the reason.
        } catch {
            let failure = CommandFailure(database: error)
            guard failure.code == CommandFailure.unusable([]).code else { throw failure }
            mistakes += failure.messages
        }
        mistakes += obstacles
        guard mistakes.isEmpty else { throw CommandFailure.unusable(mistakes) }

        for warning in configuration.warnings { warn("\(configuration.source): \(warning)") }
        if let user = database.userInPlaceOfRoot { warn("root may read and write what \(user) may not: run it with sudo -u \(user)") }
        for warning in warnings { warn(warning) }
        // systemd makes the folder of the unit at its start.
        if case .socket(let path) = configuration.http.listen, !path.hasPrefix("/run/siwatch/"),
            let problem = UnixSocket.missingFolder(of: path)
        {
            warn("\(configuration.source): http.listen: \(problem)")
        }
        for key in hiddenKeys { warn("systemd hides the key \(key) from this command, so it was not looked at") }
        for canary in unknownCanaries { warn("\(configuration.source): \(canary)") }
        for team in otherTeams { warn("\(configuration.source): \(team)") }
        for round in rounds where !round.round.fits { warn("\(configuration.source): \(round)") }
        try printOutput("\(configuration.source) is good.")
        for app in configuration.apps {
            let clients = app.clientIDs.joined(separator: ", ")
            try printOutput("  app \(app.name.printable): \(clients); signed with key \(app.keys[0].id) of team \(app.teamID)")
        }
        if let listen = configuration.http.listen {
            let clients = configuration.http.clients.map {
                "\($0.name.printable) (\($0.rights.map(\.rawValue).sorted().joined(separator: ", ")))"
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
        if online { try await OnlineCheck.run(configuration, keys) }
    }

    private func warn(_ text: String) {
        printError("warning: \(text)", at: .warning)
    }

    /// Examines whether the database fits the configuration and its keys.
    ///
    /// - Returns: the canaries without a token in the database, how long a check of all tokens takes, the tokens of other teams, and why
    ///   backends cannot insert.
    private func examine(
        _ database: DatabaseLocation,
        _ configuration: Configuration,
        _ keys: Keys?
    ) async throws -> ([UnknownCanary], [AppRound], [OtherTeam], insertObstacle: String?) {
        try await database.openForReading().closing { store in
            try store.check(configuration.clientsOfApps)
            try keys?.check(store, of: configuration)
            return (
                try await store.unknownCanaries(of: configuration),
                try await CheckRounds(store).rounds(configuration.refresh, of: configuration.apps.map(\.name)),
                try await store.otherTeams(than: configuration),
                try await database.insertObstacle(in: store)
            )
        }
    }
}
