// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
import CredentialCore
import CredentialMonitor
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
        var missing: [String] = []
        func answer<Answer>(
            _ option: String,
            _ given: String?,
            _ question: String,
            proposal: String? = nil,
            _ read: (String) throws(CommandFailure) -> Answer
        ) throws(CommandFailure) -> Answer? {
            if let given {
                do { return try read(given) } catch { throw .wrongUsage("\(option): \(error)") }
            }
            if asks { return try Terminal.ask(question, proposal: proposal, read) }
            guard let proposal else {
                missing.append(option)
                return nil
            }
            return try read(proposal)
        }

        let proposedKey = asks ? AppleKeyFile.onlyOne(in: FileManager.default.currentDirectoryPath) : nil
        var key = try answer("--key", options.key, "Apple's key, the .p8 file", proposal: proposedKey) { path throws(CommandFailure) in
            try AppleKeyFile(path, id: options.keyID)
        }
        if key?.id == "" {
            key?.id =
                try answer("--key-id", nil, "The key's id, ten characters, which Apple shows beside the key") {
                    text throws(CommandFailure) in
                    try Self.appleID(text)
                } ?? ""
        }
        let teamID = try answer("--team-id", options.teamID, "Your Team ID, ten characters") { text throws(CommandFailure) in
            try Self.appleID(text)
        }
        let given = options.clientIDs.isEmpty ? nil : options.clientIDs.joined(separator: " ")
        let question = "Client ids, all on one line: the primary App ID, then its Services IDs"
        let clientIDs = try answer("--client-id", given, question) { text throws(CommandFailure) in
            try Self.clientIDs(text, teamID: teamID)
        }
        let end = clientIDs?.first?.split(separator: ".").last.map(String.init).flatMap { FleetLane.isTaken($0) ? nil : $0 }
        let app = try answer("--app", options.app, "A short name for this app group", proposal: end ?? "app") {
            text throws(CommandFailure) in
            guard ValueRule<String>.isName(text) else { throw .wrongUsage("a name has 1 to 64 characters") }
            guard !FleetLane.isTaken(text) else { throw .wrongUsage("\(text.printable) has another meaning in the metrics") }
            guard options.app != nil || !(text.looksLikeClientID && text.contains(".")) else {
                throw .wrongUsage("\(text.printable) looks like a client id: all of these stand on one line before; begin again")
            }
            return text
        }
        let standard = Configuration.Database().path
        let database = try answer("--database", options.database, "The database: a file, or postgresql://…", proposal: standard) {
            text throws(CommandFailure) in try Self.database(text)
        }
        let http = try answer(
            "--http",
            options.http,
            "Where your backend reaches siwatch over HTTP, or none if it uses SQL",
            proposal: "127.0.0.1:9465"
        ) { text throws(CommandFailure) in try Self.address(text) }
        let notificationsURL =
            try http?.isEmpty != false
            ? nil
            : answer("--notifications-url", options.notificationsURL, Self.notificationsQuestion, proposal: "") {
                text throws(CommandFailure) in try Self.url(text)
            }
        let webhookQuestion =
            "The URL to which siwatch posts each change, so that a session ends; it need not be there yet, and Enter leaves it out"
        let webhook = try answer("--webhook", options.webhook, webhookQuestion, proposal: "") {
            text throws(CommandFailure) in try Self.url(text)
        }
        let isFile = database.map { !DatabaseLocation.isAddress($0) } ?? false
        let passwordPath =
            try isFile
            ? nil
            : answer("--password-file", options.passwordFile, "A file with the password of that URL, if it needs one", proposal: "") {
                text throws(CommandFailure) in try Self.passwordFile(text)
            }
        let backendUser =
            try isFile
            ? answer(
                "--backend-user",
                options.backendUser,
                Self.backendQuestion,
                proposal: ""
            ) { text throws(CommandFailure) in try Self.user(text) } : nil
        guard let key, let teamID, let clientIDs, let app, let database, missing.isEmpty else {
            let place = missing.contains("--key-id") ? "; Apple shows the key's id beside the key, and named the file AuthKey_ID.p8" : ""
            throw .wrongUsage(
                "\(missing.joined(separator: ", ")) \(missing.count == 1 ? "is" : "are") missing\(place); nothing was changed"
            )
        }
        (self.key, self.teamID, self.clientIDs, self.app, self.database) = (key, teamID, clientIDs, app, database)
        (self.http, self.webhook, self.notificationsURL) = (http ?? "", webhook ?? "", notificationsURL ?? "")
        passwordFile = passwordPath ?? nil
        self.backendUser = backendUser ?? nil
    }

    /// Asks once more after a first run that did not come so far.
    mutating func askForBackendUser(_ options: InitOptions, asks: Bool) throws(CommandFailure) {
        guard !DatabaseLocation.isAddress(database) else { return }
        if let user = options.backendUser {
            backendUser = try Self.user(user)
        } else if asks {
            backendUser = try Terminal.ask(Self.backendQuestion, proposal: "") { text throws(CommandFailure) in try Self.user(text) }
        }
    }

    private static let notificationsQuestion =
        "The URL at which Apple is to post notifications, if your web server leads it here: siwatch tests it, and Enter leaves it out"
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

// MARK: Single answers

extension InitAnswers {
    /// - Parameter pasted: with spaces, or in small letters.
    static func appleID(_ pasted: String) throws(CommandFailure) -> String {
        let text = pasted.filter { !$0.isWhitespace }.uppercased()
        let isOne = text.utf8.count == 10 && text.utf8.allSatisfy { $0.isDigit || $0.isCapital }
        guard isOne else { throw .wrongUsage("must be the 10 capital letters and digits that Apple shows") }
        return text
    }

    /// - Parameter text: separated by spaces or commas.
    private static func clientIDs(_ text: String, teamID: String?) throws(CommandFailure) -> [String] {
        let clientIDs = text.split { $0 == " " || $0 == "," }.map(String.init)
        for clientID in clientIDs {
            if let teamID, clientID.hasPrefix("\(teamID).") {
                throw .wrongUsage("\(clientID.printable): leave out the team, as in \(clientID.dropFirst(11))")
            }
            guard clientID.looksLikeClientID, clientID.contains(".") else {
                throw .wrongUsage("\(clientID.printable) is no App ID or Services ID such as com.example.app")
            }
        }
        guard !clientIDs.isEmpty, Set(clientIDs).count == clientIDs.count else {
            throw .wrongUsage("one client id at least, and none twice")
        }
        return clientIDs
    }

    private static func database(_ text: String) throws(CommandFailure) -> String {
        guard DatabaseLocation.isAddress(text) else { return text.asPastedPath }
        if let problem = Configuration.Database.problem(ofURL: text) { throw .wrongUsage(problem) }
        return text
    }

    /// Empty for none.
    private static func address(_ text: String) throws(CommandFailure) -> String {
        if text == "none" || text.isEmpty { return "" }
        guard text.hasPrefix("/") || ListenAddress(text) != nil else {
            throw .wrongUsage("must be host:port, such as 127.0.0.1:9465, the path of a Unix socket, or none")
        }
        return text
    }

    /// Empty for none.
    private static func url(_ text: String) throws(CommandFailure) -> String {
        if text == "none" || text.isEmpty { return "" }
        var mistakes: [ConfigurationMistake] = []
        let rule: ValueRule<URL> = .endpoint(mayHaveQuery: true)
        let danger = rule.read(.string(text), "url", &mistakes).flatMap { Configuration.Delivery(url: $0).danger }
        if let problem = mistakes.first?.problem ?? danger { throw .wrongUsage(problem) }
        return text
    }

    private static func passwordFile(_ text: String) throws(CommandFailure) -> String? {
        if text.isEmpty { return nil }
        let path = text.asPastedPath
        do {
            _ = try TextFile.read(path, limit: 4096)
        } catch {
            throw .wrongUsage("\(path.printable) \(error)")
        }
        return path
    }

    private static func user(_ name: String) throws(CommandFailure) -> String? {
        if name.isEmpty { return nil }
        guard Account.User(name) != nil else { throw .wrongUsage("this host knows no user \(name.printable)") }
        return name
    }
}
