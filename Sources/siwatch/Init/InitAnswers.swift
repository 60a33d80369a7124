// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation

/// What a configuration needs to know, each answer checked as it came. An empty text is none.
struct InitAnswers {
    let key: AppleKeyFile
    let teamID: String
    /// The primary App ID first.
    let clientIDs: [String]
    let app: String
    /// A path or a URL.
    let database: String
    let passwordFile: String
    /// Where the HTTP door listens.
    let http: String
    /// Where Apple posts notifications, if siwatch is to test it.
    let notificationsURL: String
    /// Where webhooks go.
    let webhook: String
    /// Who opens the file of the database besides siwatch.
    let backendUser: String
    /// The configuration that is there already; nil if none is.
    let configuration: Configuration?

    /// Takes the configuration that is there or the options, asks for the others, and proposes what it can guess.
    ///
    /// - Throws: `CommandFailure` with every option that is wrong or missing, if nobody can be asked, or that differs from the configuration.
    init(_ options: InitOptions, asks: Bool) throws(CommandFailure) {
        let configuration = try options.existingConfiguration()
        self.configuration = configuration
        let known = configuration?.apps[0]
        var questions = Questions(asks: asks)
        let key = try questions.key(options, known: known.map { AppleKeyFile(path: $0.keys[0].file, id: $0.keys[0].id) })
        let teamID = try questions.answer(.teamID, options.teamID, known?.teamID, Self.appleID)
        let given = options.clientIDs.isEmpty ? nil : options.clientIDs.joined(separator: " ")
        let clientIDs = try questions.answer(.clientIDs, given, known?.clientIDs, Self.clientIDs)
        var appQuestion = Question.app
        if let end = clientIDs?.first?.split(separator: ".").last, !FleetLane.isTaken(String(end)) { appQuestion.proposal = String(end) }
        let app = try questions.answer(appQuestion, options.app, known?.name) { text throws(CommandFailure) in
            try Self.appName(text, mayLookLikeClient: options.app != nil)
        }
        let place = configuration.map { $0.database.url ?? $0.database.path }
        let database = try questions.answer(.database, options.database, place, Self.database)
        let door = configuration.map { $0.http.listen.map { "\($0)" } ?? "" }
        http = try questions.answer(.http, options.http, door, Self.address) ?? ""
        let url = configuration.map { $0.http.notificationsURL?.absoluteString ?? "" }
        notificationsURL = try http.isEmpty ? "" : questions.answer(.notificationsURL, options.notificationsURL, url, Self.url) ?? ""
        let receiver = configuration.map { $0.deliveries.first?.url.absoluteString ?? "" }
        webhook = try questions.answer(.webhook, options.webhook, receiver, Self.url) ?? ""
        if let database, DatabaseLocation.isAddress(database) {
            // The configuration names siwatch's own copy.
            let isNamed = configuration != nil
            passwordFile = try isNamed ? "" : questions.answer(.passwordFile, options.passwordFile, nil, Self.passwordFile) ?? ""
            backendUser = ""
        } else {
            passwordFile = ""
            // Asked at each run, because the first may not have come so far.
            backendUser = try questions.answer(.backendUser, options.backendUser, nil, Self.user) ?? ""
        }
        guard questions.areAnswered, let key, let teamID, let clientIDs, let app, let database else {
            throw questions.failure(options.configurationPath)
        }
        (self.key, self.teamID, self.clientIDs, self.app, self.database) = (key, teamID, clientIDs, app, database)
    }

    var isServer: Bool { DatabaseLocation.isAddress(database) }

    /// What the configuration consists of, itself last. By their names alone, so that systemd credentials of these names can take their place.
    ///
    /// - Parameter path: of the configuration.
    func files(_ path: String) throws(CommandFailure) -> [(path: String, text: String, isSecret: Bool)] {
        let folder = URL(filePath: path).deletingLastPathComponent().path
        var files = [(path: "\(folder)/\(keyFile)", text: try key.read().text, isSecret: false)]
        if !passwordFile.isEmpty { files.append(("\(folder)/\(Self.passwordCopy)", try Self.password(in: passwordFile), false)) }
        if !http.isEmpty { files.append(("\(folder)/\(Self.tokenFile)", NewSecret.token.make() + "\n", true)) }
        if !webhook.isEmpty { files.append(("\(folder)/\(Self.webhookSecretFile)", NewSecret.webhook.make() + "\n", true)) }
        files.append((path, text, false))
        return files
    }

    static let tokenFile = "backend.token"
    static let webhookSecretFile = "backend.whsec"
    private static let passwordCopy = "database.password"
    private var keyFile: String { "AuthKey_\(key.id).p8" }

    /// Of `siwatch.toml`.
    var text: String {
        let password = passwordFile.isEmpty ? "" : "password_file = \(Self.passwordCopy.quotedForTOML)\n"
        return """
            # Written by siwatch init. docs/configuration.toml, or man siwatch.toml, shows every other key, with its default.

            [database]
            \(isServer ? "url" : "path") = \(database.quotedForTOML)
            \(password)
            [[app]]
            name = \(app.quotedForTOML)
            team_id = \(teamID.quotedForTOML)
            client_ids = [\(clientIDs.map(\.quotedForTOML).joined(separator: ", "))]

            [[app.key]]
            id = \(key.id.quotedForTOML)
            file = \(keyFile.quotedForTOML)

            """ + (http.isEmpty ? "" : door) + (webhook.isEmpty ? "" : delivery)
    }

    private var door: String {
        """

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
        """

        [[delivery]]
        name = "backend"
        url = \(webhook.quotedForTOML)
        secret_files = [\(Self.webhookSecretFile.quotedForTOML)]

        """
    }
}

extension String {
    /// As a basic string of TOML, which has all escapes of JSON.
    var quotedForTOML: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return String(decoding: (try? encoder.encode(self)) ?? Data(), as: UTF8.self)
    }
}
