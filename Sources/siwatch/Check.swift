// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import SQLiteStore

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks the configuration, the keys and the database, and changes nothing.",
        discussion: "Exits with 78 and one line for each mistake, or with 0."
    )

    @OptionGroup var options: CommonOptions

    func run() throws {
        let configuration = try options.readConfiguration()
        let keys = try Keys(configuration)
        let file = DatabaseFile(path: configuration.database.path)
        let contents: DatabaseFile.Contents
        do {
            contents = try file.inspect(isInUse: DatabaseLock.isHeld(database: file.path))
            if keys.ring == nil, contents != .none, try SQLiteStore.hasSealedRows(in: file) {
                throw CommandFailure.unusable(["encryption.key_file: \(configuration.encryption.keyFile) is missing"])
            }
        } catch {
            throw CommandFailure(database: error)
        }
        for warning in configuration.warnings { printError("warning: \(configuration.source): \(warning)") }
        print("\(configuration.source) is good.")
        for app in configuration.apps {
            let clients = app.clientIDs.joined(separator: ", ")
            print("  app \(app.name): \(clients); signed with key \(app.keys[0].id) of team \(app.teamID)")
        }
        switch contents {
        case .none: print("  database \(file.path): not there yet; siwatch migrate creates it")
        case .siwatch: print("  database \(file.path): usable")
        }
        if keys.ring == nil { print("  key \(configuration.encryption.keyFile): not there yet; siwatch migrate creates it") }
    }
}
