// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialSealing
import Foundation
import SQLiteStore

struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks the configuration, the keys and the database, and changes nothing in them.",
        discussion: "Exits with 78 and one line for each mistake, or with 0."
    )

    @OptionGroup var options: CommonOptions

    func run() async throws {
        let configuration = try options.readConfiguration()
        var mistakes: [String] = []
        var rounds: [AppRound] = []
        var unknownCanaries = configuration.apps.flatMap { app in app.canaries.map { UnknownCanary(app: app.name, userID: $0) } }
        var keys: Keys?
        do {
            keys = try Keys(configuration)
        } catch {
            mistakes += error.messages
        }
        let file = DatabaseFile(path: configuration.database.path)
        var contents = DatabaseFile.Contents.none
        let obstacles = file.obstacles
        mistakes += obstacles
        do {
            contents = try file.inspect(isInUse: DatabaseLock.isHeld(database: file.path))
            // To read beside a daemon takes the right to write, too.
            if contents != .none, obstacles.isEmpty { (unknownCanaries, rounds) = try await examine(file, configuration, keys) }
        } catch DatabaseFile.Unusable.unreadable where !obstacles.isEmpty {
            // Why that is so is said.
        } catch {
            let failure = CommandFailure(database: error)
            guard failure.code == CommandFailure.unusable([]).code else { throw failure }
            mistakes += failure.messages
        }
        guard let keys, mistakes.isEmpty else { throw CommandFailure.unusable(mistakes) }

        for warning in configuration.warnings { printError("warning: \(configuration.source): \(warning)") }
        if let user = file.userInPlaceOfRoot {
            printError("warning: root may read and write what \(user) may not: run it with sudo -u \(user)")
        }
        for canary in unknownCanaries { printError("warning: \(configuration.source): \(canary)") }
        for round in rounds where !round.round.fits { printError("warning: \(configuration.source): \(round)") }
        print("\(configuration.source) is good.")
        for app in configuration.apps {
            let clients = app.clientIDs.joined(separator: ", ")
            print("  app \(app.name.printable): \(clients); signed with key \(app.keys[0].id) of team \(app.teamID)")
        }
        switch contents {
        case .none where file.isEmptyFile:
            print("  database \(file.path): an empty file, which some program left; siwatch migrate creates the database in its place")
        case .none: print("  database \(file.path): not there yet; siwatch migrate creates it")
        case .siwatch: print("  database \(file.path): usable")
        }
        if keys.ring == nil { print("  key \(configuration.encryption.keyFile): not there yet; siwatch migrate creates it") }
    }

    /// Whether the database goes with the configuration and its keys.
    ///
    /// - Returns: the canaries it has no token of, and how long a check of all tokens takes.
    private func examine(
        _ file: DatabaseFile,
        _ configuration: Configuration,
        _ keys: Keys?
    ) async throws -> ([UnknownCanary], [AppRound]) {
        let store = try SQLiteStore.openForReading(file)
        defer { try? store.close() }
        try store.check(configuration.clientsOfApps)
        let unknownCanaries = try await store.unknownCanaries(of: configuration)
        let rounds = try await CheckRounds(store).rounds(configuration.refresh, of: configuration.apps.map(\.name))
        guard let keys, let sealed = try store.sealedSecret(named: CredentialSealer.fingerprintKeyName) else {
            return (unknownCanaries, rounds)
        }
        guard let ring = keys.ring else { throw CommandFailure.missingKey(of: configuration) }
        do {
            _ = try CredentialSealer(ring: ring, sealedFingerprintKey: sealed)
        } catch {
            throw CommandFailure.wrongKey(of: configuration, error)
        }
        return (unknownCanaries, rounds)
    }
}
