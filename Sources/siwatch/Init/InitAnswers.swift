// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// What a configuration needs to know, each answer checked as it came.
struct InitAnswers {
    var key: AppleKeyFile
    var teamID: String
    /// The primary App ID first.
    var clientIDs: [String]
    var app: String
    /// A path or a URL.
    var database: String
    var passwordFile: String?
    /// Where the HTTP door listens; empty for none.
    var http = ""
    /// Where Apple posts notifications; empty if siwatch is not to test it.
    var notificationsURL = ""
    /// Where webhooks go; empty for none.
    var webhook = ""
    /// Who opens the file of the database; nil for nobody but siwatch.
    var backendUser: String?
    /// Whether a configuration with these answers is there already.
    var areConfigured = false

    /// Takes the options, asks for the others, and proposes what it can guess.
    ///
    /// - Throws: `CommandFailure` with every option that is wrong or missing, if nobody can be asked.
    init(_ options: InitOptions, asks: Bool) throws(CommandFailure) {
        var questions = Questions(asks: asks)
        let key = try questions.key(options)
        let teamID = try questions.answer("--team-id", options.teamID, "Your Team ID, ten characters", read: Self.appleID)
        let given = options.clientIDs.isEmpty ? nil : options.clientIDs.joined(separator: " ")
        let question = "Client ids, all on one line: the primary App ID, then its Services IDs"
        let clientIDs = try questions.answer("--client-id", given, question) { text throws(CommandFailure) in
            try Self.clientIDs(text, teamID: teamID)
        }
        let end = clientIDs?.first?.split(separator: ".").last.map(String.init).flatMap { FleetLane.isTaken($0) ? nil : $0 }
        let app = try questions.answer("--app", options.app, "A short name for this app group", proposal: end ?? "app") {
            text throws(CommandFailure) in
            try Self.appName(text, mayLookLikeClient: options.app != nil)
        }
        let database = try questions.answer(
            "--database",
            options.database,
            "The database: a file, or postgresql://…",
            proposal: Configuration.Database().path,
            read: Self.database
        )
        http =
            try questions.answer(
                "--http",
                options.http,
                "Where your backend reaches siwatch over HTTP, or none if it uses SQL",
                proposal: "127.0.0.1:9465",
                read: Self.address
            ) ?? ""
        if !http.isEmpty {
            let question =
                "The URL at which Apple is to post notifications, if your web server leads it here: siwatch tests it, and Enter leaves it out"
            notificationsURL =
                try questions.answer("--notifications-url", options.notificationsURL, question, proposal: "", read: Self.url) ?? ""
        }
        let webhookQuestion =
            "The URL to which siwatch posts each change, so that a session ends; it need not be there yet, and Enter leaves it out"
        webhook = try questions.answer("--webhook", options.webhook, webhookQuestion, proposal: "", read: Self.url) ?? ""
        let passwordQuestion = "A file with the password of that URL, if it needs one"
        if let database, DatabaseLocation.isAddress(database) {
            passwordFile =
                try questions.answer("--password-file", options.passwordFile, passwordQuestion, proposal: "", read: Self.passwordFile)
                ?? nil
        } else {
            backendUser =
                try questions.answer("--backend-user", options.backendUser, Self.backendQuestion, proposal: "", read: Self.user) ?? nil
        }
        guard let key, let teamID, let clientIDs, let app, let database, questions.missing.isEmpty else { throw questions.failure }
        (self.key, self.teamID, self.clientIDs, self.app, self.database) = (key, teamID, clientIDs, app, database)
    }

    /// Asks once more after a first run that did not come so far.
    mutating func askForBackendUser(_ options: InitOptions, asks: Bool) throws(CommandFailure) {
        guard !DatabaseLocation.isAddress(database) else { return }
        if let user = options.backendUser {
            backendUser = try Self.user(user)
        } else if asks {
            backendUser = try Terminal.ask(Self.backendQuestion, proposal: "", Self.user)
        }
    }

    private static let backendQuestion = "The user of this host that your backend runs as, if it opens the database file"

    private init(_ configuration: Configuration) {
        let app = configuration.apps[0]
        key = AppleKeyFile(path: app.keys[0].file, id: app.keys[0].id)
        (teamID, clientIDs, self.app) = (app.teamID, app.clientIDs, app.name)
        database = configuration.database.url ?? configuration.database.path
        passwordFile = configuration.database.passwordFile
        http = configuration.http.listen.map { "\($0)" } ?? ""
        notificationsURL = configuration.http.notificationsURL?.absoluteString ?? ""
        webhook = configuration.deliveries.first?.url.absoluteString ?? ""
        areConfigured = true
    }

    /// The answers of a configuration that is there; nil if none is.
    static func existing(at path: String) throws(CommandFailure) -> InitAnswers? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        do {
            return InitAnswers(try Configuration(contentsOf: path))
        } catch {
            throw CommandFailure(error)
        }
    }

    /// The text of `siwatch.toml`.
    func configuration(keyFile: String) -> String {
        let isFile = !DatabaseLocation.isAddress(database)
        let password = passwordFile == nil ? "" : "password_file = \(Self.passwordCopy.quotedForTOML)\n"
        return """
            # Written by siwatch init. The page of operations and the example siwatch.toml show every other key, with its default.

            [database]
            \(isFile ? "path" : "url") = \(database.quotedForTOML)
            \(password)
            [[app]]
            name = \(app.quotedForTOML)
            team_id = \(teamID.quotedForTOML)
            client_ids = [\(clientIDs.map(\.quotedForTOML).joined(separator: ", "))]

            [[app.key]]
            id = \(key.id.quotedForTOML)
            file = \(keyFile.quotedForTOML)

            """ + door + delivery
    }

    static let passwordCopy = "database.password"
    static let tokenFile = "backend.token"
    static let webhookSecretFile = "backend.whsec"

    private var door: String {
        http.isEmpty
            ? ""
            : """

            [http]
            listen = \(http.quotedForTOML)
            \(notificationsURL.isEmpty ? "" : "notifications_url = \(notificationsURL.quotedForTOML)\n")
            [[http.client]]
            name = "backend"
            token_files = [\(Self.tokenFile.quotedForTOML)]
            may = ["sign_in", "delete", "read"]

            """
    }

    private var delivery: String {
        webhook.isEmpty
            ? ""
            : """

            [[delivery]]
            name = "backend"
            url = \(webhook.quotedForTOML)
            secret_files = [\(Self.webhookSecretFile.quotedForTOML)]

            """
    }
}
