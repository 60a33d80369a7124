// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sets siwatch up on this host: asks, proves the answers, and starts it.",
        discussion: """
            Each answer is also an option. Nothing is written before the last answer, and no file is overwritten. A second run goes on \
            where the first one stopped, and restarts siwatch. It changes no configuration, and says which of its options differ from the one that is there.
            """
    )

    @OptionGroup var options: InitOptions

    func run() async throws {
        try options.requireRights()
        let asks = !options.yes && Invocation.current.console.hasPerson
        let setUp = try SetUp(InitAnswers(options, asks: asks), options, asks: asks)
        if options.dryRun { return try printOutput(setUp.plan()) }
        try await setUp.carryOut()
    }
}

/// The answers as options, and how to set up.
struct InitOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("The configuration file to write. Also by SIWATCH_CONFIG.", valueName: "file"),
        completion: .file(extensions: ["toml"])
    )
    var config: String?

    @Option(help: Question.teamID.help) var teamID: String?
    @Option(help: Question.key.help, completion: .file(extensions: ["p8"])) var key: String?
    @Option(help: Question.keyID.help) var keyID: String?
    @Option(name: .customLong("client-id"), help: Question.clientIDs.help) var clientIDs: [String] = []
    @Option(help: Question.simulator.help) var simulator: String?
    @Option(help: Question.app.help) var app: String?
    @Option(help: Question.database.help) var database: String?
    @Option(help: Question.passwordFile.help, completion: .file()) var passwordFile: String?
    @Option(help: Question.http.help) var http: String?
    @Option(help: Question.notificationsURL.help) var notificationsURL: String?
    @Option(help: Question.webhook.help) var webhook: String?
    @Option(help: Question.backendUser.help) var backendUser: String?
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

    /// - Throws: if this user cannot write the configuration, before anybody is asked.
    func requireRights() throws(CommandFailure) {
        let folder = configurationPath.folder
        let place = FileManager.default.fileExists(atPath: folder) ? folder : folder.folder
        guard !dryRun, access(place, W_OK | X_OK) != 0 else { return }
        throw .wrongUsage("\(Account.user) cannot write \(folder.printable): run sudo siwatch init, or name another place by --config")
    }

    /// The configuration that is there; nil if none is.
    func existingConfiguration() throws(CommandFailure) -> Configuration? {
        guard FileManager.default.fileExists(atPath: configurationPath) else { return nil }
        do { return try Configuration(contentsOf: configurationPath) } catch { throw CommandFailure(error) }
    }
}
