// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

/// The answers as options, and how to set up.
struct InitOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The configuration file to write. Also by SIWATCH_CONFIG.", valueName: "file"),
        completion: .file(extensions: ["toml"])
    )
    var config: String?

    @Option(help: ArgumentHelp("The ten characters of the team at Apple.", valueName: "id")) var teamID: String?
    @Option(help: ArgumentHelp("The .p8 file, as Apple hands it out.", valueName: "file"), completion: .file(extensions: ["p8"]))
    var key: String?
    @Option(help: ArgumentHelp("The ten characters of the key. Without it, those in the name AuthKey_….p8.", valueName: "id"))
    var keyID: String?
    @Option(
        name: .customLong("client-id"),
        help: ArgumentHelp("An App ID or a Services ID. Once for each of them, the primary App ID first.", valueName: "id")
    )
    var clientIDs: [String] = []
    @Option(
        help: ArgumentHelp(
            "The name of the app group in tables and metrics. Without it, the end of the first client id.",
            valueName: "name"
        )
    )
    var app: String?
    @Option(help: ArgumentHelp("The path of a file, or the URL of a PostgreSQL database.", valueName: "path or URL"))
    var database: String?
    @Option(help: ArgumentHelp("A file with the password of that URL.", valueName: "file"), completion: .file())
    var passwordFile: String?
    @Option(
        help: ArgumentHelp(
            "Where the HTTP door listens for the backend; none if it uses SQL. 127.0.0.1:9465 by default.",
            valueName: "host:port"
        )
    )
    var http: String?
    @Option(help: ArgumentHelp("The URL at which Apple posts, if it leads to the HTTP door: siwatch tests it.", valueName: "URL"))
    var notificationsURL: String?
    @Option(help: ArgumentHelp("The URL of the backend that takes webhooks.", valueName: "URL")) var webhook: String?
    @Option(help: ArgumentHelp("The user of this host that the backend runs as. It joins the group of the database.", valueName: "user"))
    var backendUser: String?
    @Option(help: ArgumentHelp("The user that siwatch runs as: siwatch for root, else the caller.", valueName: "user"))
    var serviceUser: String?

    @Flag(name: .shortAndLong, help: "Ask nothing: take the options, and the defaults of the others.") var yes = false
    @Flag(help: "Print what would be written, and change nothing.") var dryRun = false
    @Flag(help: "Do not ask Apple whether the key, the team and the clients belong together.") var offline = false

    var configurationPath: String {
        let path = config ?? Invocation.current.environment["SIWATCH_CONFIG"] ?? Self.standardPath
        return URL(filePath: path).standardizedFileURL.path
    }

    static let standardPath = "/etc/siwatch/siwatch.toml"

    /// - Throws: `CommandFailure` if this user cannot write the configuration, before anybody is asked.
    func requireRights() throws(CommandFailure) {
        let folder = URL(filePath: configurationPath).deletingLastPathComponent()
        let place = FileManager.default.fileExists(atPath: folder.path) ? folder : folder.deletingLastPathComponent()
        guard !dryRun, access(place.path, W_OK | X_OK) != 0 else { return }
        throw .wrongUsage("\(Account.user) cannot write \(folder.path.printable): run sudo siwatch init, or name another place by --config")
    }

    /// The configuration that is there; nil if none is.
    func existingConfiguration() throws(CommandFailure) -> Configuration? {
        guard FileManager.default.fileExists(atPath: configurationPath) else { return nil }
        do {
            return try Configuration(contentsOf: configurationPath)
        } catch {
            throw CommandFailure(error)
        }
    }
}
