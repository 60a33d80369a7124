// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleIdentity
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
    /// Where the simulated Apple answers.
    let simulator: String
    /// The configuration that is there already; nil if none is.
    let configuration: Configuration?
    /// What a person has said, as options.
    let asked: [String]

    /// - Throws: every option that is missing if nobody can be asked, and every one that differs from the configuration.
    init(_ options: InitOptions, asks: Bool) throws(CommandFailure) {
        let configuration = try options.existingConfiguration()
        self.configuration = configuration
        let known = configuration?.apps[0]
        var questions = Questions(asks: asks)
        let apple = configuration?.apple.tokenEndpoint.absoluteString.replacing("/auth/token", with: "")
        simulator = try options.simulator == nil ? "" : questions.answer(.simulator, options.simulator, apple, Self.simulator) ?? ""
        var (team, clients) = (Question.teamID, Question.clientIDs)
        if !simulator.isEmpty { (team.proposal, clients.proposal) = ("A1B2C3D4E5", "com.example.app com.example.web") }
        let key = try questions.key(options, known: known.map { AppleKeyFile(path: $0.keys[0].file, id: $0.keys[0].id) })
        let teamID = try questions.answer(team, options.teamID, known?.teamID, Self.appleID)
        let given = options.clientIDs.isEmpty ? nil : options.clientIDs.joined(separator: " ")
        let clientIDs = try questions.answer(clients, given, known?.clientIDs, Self.clientIDs)
        var appQuestion = Question.app
        appQuestion.proposal = Self.appName(of: clientIDs)
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
        asked = questions.asked
    }

    var isServer: Bool { DatabaseLocation.isAddress(database) }

    /// What the configuration at `path` consists of, itself last. By names alone, so that systemd credentials can take their place.
    func files(_ path: String) throws(CommandFailure) -> [(path: String, text: String, isSecret: Bool)] {
        let folder = path.folder
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

    /// The text of `siwatch.toml`.
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

            """ + (http.isEmpty ? "" : door) + (webhook.isEmpty ? "" : delivery) + (simulator.isEmpty ? "" : apple)
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

    private var apple: String {
        let endpoints = [("token", "token"), ("revocation", "revoke"), ("keys", "keys")]
        return "\n[apple]\n" + endpoints.map { "\($0)_endpoint = \("\(simulator)/auth/\($1)".quotedForTOML)\n" }.joined()
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

/// A `.p8` file, as Apple hands it out once.
struct AppleKeyFile {
    var path: String
    /// Empty if neither the name of the file nor somebody has told it.
    var id: String

    /// The only key file of a folder; nil if it has none, or several.
    static func onlyOne(in folder: String) -> String? {
        let names = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).filter { id(inName: $0) != nil }
        return names.count == 1 ? "\(folder)/\(names[0])" : nil
    }

    fileprivate static func id(inName path: String) -> String? {
        URL(filePath: path).lastPathComponent.wholeMatch(of: /AuthKey_([A-Z0-9]{10})\.p8/).map { String($0.1) }
    }
}

extension AppleKeyFile: Equatable {
    /// Whether both files hold the same key. One of them may not know its id yet.
    static func == (left: AppleKeyFile, right: AppleKeyFile) -> Bool {
        ([left.id, right.id].contains("") || left.id == right.id)
            && FileManager.default.contents(atPath: left.path) == FileManager.default.contents(atPath: right.path)
    }

    /// - Parameter id: nil to take that of the file's name.
    /// - Throws: why the file holds no key that Apple's servers take.
    init(_ pasted: String, id: String?) throws(CommandFailure) {
        let path = pasted.asPastedPath
        self.init(path: path, id: try id.map(InitAnswers.appleID) ?? Self.id(inName: path) ?? "")
        _ = try read()
    }

    func read() throws(CommandFailure) -> (text: String, key: ClientSecretKey) {
        do {
            let text = try TextFile.read(path, limit: Configuration.longestKeyFile, mayBeDER: true)
            return (text, try ClientSecretKey(id: id, text: Secret(text)))
        } catch let error as TextFileError {
            throw .wrongUsage("\(path.printable) \(error)")
        } catch {
            throw .wrongUsage("\(path.printable): \(error)")
        }
    }
}
