// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

struct Init: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sets siwatch up on this host: asks, proves the answers, and starts it.",
        discussion: """
            Each answer is also an option. Nothing is written before the last answer, and no file is overwritten. A second run goes on \
            where the first one stopped; it says where its options differ from the configuration, and changes nothing there.
            """
    )

    @OptionGroup var output: OutputOptions
    @OptionGroup var options: InitOptions

    func run() async throws {
        let path = options.configurationPath
        let existing = try InitAnswers.existing(at: path)
        if let existing {
            let differences = options.differences(from: existing)
            guard differences.isEmpty else {
                throw CommandFailure(
                    code: .failure,
                    messages: differences + ["siwatch init changes no configuration; edit \(path), then run it without these options"]
                )
            }
        }
        let asks = !options.yes && !output.json && Terminal.isThere
        let answers = try existing ?? InitAnswers(options, asks: asks)
        let setUp = try SetUp(answers, options)
        if options.dryRun { return try output.print(setUp.plan, setUp.plan.description) }
        if asks, existing == nil, DatabaseLocation.isAddress(answers.database) { try askForRoles() }
        let isQuiet = output.json
        let report = try setUp.carryOut { step in if !isQuiet { try? printOutput(step.text) } }
        try output.print(report, report.next.joined(separator: "\n"))
    }
}

extension Init {
    private func askForRoles() throws(CommandFailure) {
        try printOutput("Let an administrator run this in that database:\n\n\(ServerRoles.script)\n")
        try Terminal.ask("Press Enter when that is done", proposal: "") { _ throws(CommandFailure) in }
    }
}

/// The roles of a PostgreSQL server, as an administrator makes them.
enum ServerRoles {
    static let script = """
        CREATE ROLE siwatch LOGIN PASSWORD 'change me';
        CREATE ROLE siwatch_backend NOLOGIN;        -- all that the next four do
        CREATE ROLE siwatch_reader NOLOGIN;         -- reads the states
        CREATE ROLE siwatch_notifications NOLOGIN;  -- inserts what Apple posts
        CREATE ROLE siwatch_grants NOLOGIN;         -- inserts sign-ins
        CREATE ROLE siwatch_revocations NOLOGIN;    -- inserts requests to revoke
        GRANT pg_read_all_stats TO siwatch;  -- it warns of snapshots that are held for long
        DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO siwatch', current_database()); END $$;
        """
}

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
    @Option(help: ArgumentHelp("The URL of the backend that takes webhooks.", valueName: "URL")) var webhook: String?
    @Option(help: ArgumentHelp("The user of this host that the backend runs as. It joins the group of the database.", valueName: "user"))
    var backendUser: String?
    @Option(help: ArgumentHelp("The user that siwatch runs as: siwatch for root, else the caller.", valueName: "user"))
    var serviceUser: String?

    @Flag(name: .shortAndLong, help: "Ask nothing: take the options, and the defaults of the others.") var yes = false
    @Flag(help: "Print what would be written, and change nothing.") var dryRun = false
    @Flag(help: "Do not ask Apple whether the key, the team and the clients belong together.") var offline = false

    var configurationPath: String {
        let path = config ?? ProcessInfo.processInfo.environment["SIWATCH_CONFIG"] ?? Self.standardPath
        return URL(filePath: path).standardizedFileURL.path
    }

    static let standardPath = "/etc/siwatch/siwatch.toml"

    /// Where an option says something else than the configuration, one sentence each.
    func differences(from existing: InitAnswers) -> [String] {
        func differs(_ option: String, _ given: String?, _ found: String) -> String? {
            guard let given, given != found else { return nil }
            return "\(option): \(configurationPath) has \(found.printable), and not \(given.printable)"
        }
        return [
            differs("--team-id", teamID, existing.teamID), differs("--key-id", keyID, existing.key.id), differs("--app", app, existing.app),
            differs("--client-id", clientIDs.isEmpty ? nil : clientIDs.joined(separator: " "), existing.clientIDs.joined(separator: " ")),
            differs("--database", database, existing.database),
        ].compactMap(\.self)
    }
}
