// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

struct CommonOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The configuration. Also by SIWATCH_CONFIG.", valueName: "file"), completion: .file(extensions: ["toml"]))
    var config: String?

    @Flag(help: "Run as root on a file of another user. The users who can write the file then choose the data that root reads.")
    var asRoot = false

    var configurationPath: String {
        config ?? Invocation.current.environment["SIWATCH_CONFIG"] ?? InitOptions.standardPath
    }

    /// - Parameter opensDatabase: whether the command opens the database, and so must not do it as root in the place of the owner.
    func readConfiguration(opensDatabase: Bool = true) throws(CommandFailure) -> Configuration {
        let configuration: Configuration
        do {
            configuration = try Configuration(contentsOf: configurationPath)
        } catch {
            var failure = CommandFailure(error)
            // The package lets only siwatch read it.
            if configurationPath == InitOptions.standardPath, access(configurationPath, R_OK) != 0, errno == EACCES {
                let path = configurationPath
                failure.messages.append(
                    Account.user == "siwatch"
                        ? "siwatch may not read that: sudo chgrp siwatch \(path) and sudo chmod g+r \(path) end this"
                        : "only siwatch and root may read that: run the command with sudo -u siwatch"
                )
            }
            throw failure
        }
        if opensDatabase { try leaveRoot(on: try configuration.namedDatabase()) }
        return configuration
    }

    /// Goes on as the owner of the database in root's place, because root must not read what others may write. A test's call cannot.
    func leaveRoot(on database: DatabaseLocation) throws(CommandFailure) {
        guard !asRoot, let user = database.userInPlaceOfRoot else { return }
        if Invocation.current.isProcess, let owner = Account.User(user), OwnProcess.become(owner) { return }
        throw .wrongUsage("the database belongs to \(user): run it with sudo -u \(user), or as root all the same with --as-root")
    }
}
