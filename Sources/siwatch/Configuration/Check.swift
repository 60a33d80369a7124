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
        let found = try await examine(database, configuration, keys)
        mistakes += found.mistakes
        guard mistakes.isEmpty else { throw CommandFailure.unusable(mistakes) }

        for warning in configuration.warnings { warn("\(configuration.source): \(warning)") }
        if let user = database.userInPlaceOfRoot { warn("root may read and write what \(user) may not: run it with sudo -u \(user)") }
        for warning in found.warnings { warn(warning) }
        // systemd makes the folder of the unit at its start.
        if case .socket(let path) = configuration.http.listen, !path.hasPrefix("/run/siwatch/"),
            let problem = UnixSocket.missingFolder(of: path)
        {
            warn("\(configuration.source): http.listen: \(problem)")
        }
        for key in hiddenKeys { warn("systemd hides the key \(key) from this command, so it was not looked at") }
        for doubt in found.doubts { warn("\(configuration.source): \(doubt)") }
        try printSummary(of: configuration, keys, database, isThere: found.isThere)
        if online { try await OnlineCheck.run(configuration, keys) }
    }

    private func warn(_ text: String) {
        printError("warning: \(text)", at: .warning)
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

    /// What was found of the database.
    private struct Found {
        var isThere = false
        var mistakes: [String] = []
        var warnings: [String] = []
        /// What its tables say of the configuration.
        var doubts: [String] = []
    }

    private func examine(_ database: DatabaseLocation, _ configuration: Configuration, _ keys: Keys?) async throws -> Found {
        var found = Found()
        found.doubts = configuration.apps.flatMap { app in app.canaries.map { UnknownCanary(app: app.name, userID: $0).description } }
        func placed(_ warning: String?) -> [String] { warning.map { ["\(database.place): \($0)"] } ?? [] }
        // Reading mends it.
        let cut = placed(database.cutMemory)
        var obstacles = database.obstacles(besideKey: configuration.encryption.keyFile)
        do {
            let server = try database.examineServer(clockSkew: configuration.queues.clockSkew)
            obstacles += server.obstacles
            found.warnings = cut + server.warnings + placed(database.space?.warning)
            found.isThere = try server.obstacles.isEmpty && database.exists()
            // Reading beside a daemon needs the right to write too.
            if found.isThere, obstacles.isEmpty {
                let (doubts, insertObstacle) = try await compare(database, with: configuration, keys)
                found.doubts = doubts
                found.warnings += placed(database.insertWeakness) + placed(insertObstacle.map { "backends cannot insert: \($0)" })
            }
        } catch let error as UnusableFile where error.isUnreadable && !obstacles.isEmpty {
            // An obstacle already gives the reason.
        } catch {
            let failure = CommandFailure(database: error)
            guard failure.code == CommandFailure.unusable([]).code else { throw failure }
            found.mistakes = failure.messages
        }
        found.mistakes += obstacles
        return found
    }

    /// Examines whether the database fits the configuration and its keys.
    private func compare(
        _ database: DatabaseLocation,
        with configuration: Configuration,
        _ keys: Keys?
    ) async throws -> (doubts: [String], insertObstacle: String?) {
        try await database.openForReading().closing { store in
            try store.check(configuration.clientsOfApps)
            try keys?.check(store, of: configuration)
            let canaries = try await store.unknownCanaries(of: configuration)
            let rounds = try await CheckRounds(store).rounds(configuration.refresh, of: configuration.apps.map(\.name))
            let teams = try await store.otherTeams(than: configuration)
            let doubts = canaries.map(\.description) + teams.map(\.description) + rounds.filter { !$0.round.fits }.map(\.description)
            return (doubts, try await database.insertObstacle(in: store))
        }
    }
}
