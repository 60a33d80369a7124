// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import CredentialMonitor
import Foundation
import TOMLKit

/// What `siwatch init` asks, and the option that answers it.
struct Question {
    let option: String
    let words: String
    /// What the answer is, in the help of the option.
    let value: String
    /// What is taken where nobody says otherwise, empty for none; nil if there is nothing to propose.
    var proposal: String?

    init(_ option: String, _ words: String, _ value: String, proposal: String? = nil) {
        self.option = option
        self.words = words
        self.value = value
        self.proposal = proposal
    }

    var help: ArgumentHelp {
        let end = proposal.map { $0.isEmpty ? "" : " By default \($0)." } ?? ""
        return ArgumentHelp("\(words).\(end)", valueName: value)
    }

    static let key = Question("--key", "Apple's key: the .p8 file, as Apple hands it out", "file")
    static let keyID = Question("--key-id", "The key's id, ten characters, which Apple shows beside the key", "id")
    static let teamID = Question("--team-id", "Your Team ID, ten characters", "id")
    static let clientIDs = Question("--client-id", "Client ids, all on one line: the primary App ID, then its Services IDs", "ids")
    static let simulator = Question("--simulator", "A simulated Apple in Apple's place, for tests, such as http://127.0.0.1:9470", "URL")
    static let app = Question("--app", "A short name for this app group: by default a part of the first client id", "name")
    static let database = Question(
        "--database",
        "The database: a file, or postgresql://…",
        "path or URL",
        proposal: Configuration.Database().path
    )
    static let passwordFile = Question("--password-file", "A file with the password of that URL, if it needs one", "file", proposal: "")
    static let http = Question(
        "--http",
        "Where your backend reaches siwatch over HTTP, or none if it uses SQL",
        "host:port",
        proposal: "127.0.0.1:9465"
    )
    static let notificationsURL = Question(
        "--notifications-url",
        "The URL at which Apple is to post notifications, if your web server leads it here: siwatch tests it",
        "URL",
        proposal: ""
    )
    static let webhook = Question(
        "--webhook",
        "The URL to which siwatch posts each change, so that a session ends; it need not be there yet",
        "URL",
        proposal: ""
    )
    static let backendUser = Question(
        "--backend-user",
        "The user of this host that your backend runs as, if it opens the database file; it joins that file's group",
        "user",
        proposal: ""
    )
}

/// Where answers come from: the configuration that is there, options, a person, or proposals.
struct Questions {
    /// Whether a person can be asked.
    let asks: Bool
    /// The options without which there is no answer.
    private(set) var missing: [String] = []
    /// The options that say something else than the configuration that is there.
    private(set) var differing: [String] = []
    /// What a person has said, as options.
    private(set) var asked: [String] = []

    /// - Parameters:
    ///   - given: the value of the option.
    ///   - known: the answer of the configuration that is there.
    ///   - read: throws why a text is no answer.
    /// - Returns: nil if the option is missing.
    mutating func answer<Answer: Equatable>(
        _ question: Question,
        _ given: String?,
        _ known: Answer?,
        _ read: (String) throws(CommandFailure) -> Answer
    ) throws(CommandFailure) -> Answer? {
        if let given {
            do {
                let answer = try read(given)
                if let known, answer != known { differing.append(question.option) }
                return answer
            } catch {
                guard asks, known == nil else { throw .wrongUsage("\(question.option): \(error)") }
                printError("\(question.option): \(error)")
            }
        }
        if let known { return known }
        if asks {
            return try Terminal.ask(question.words, proposal: question.proposal) { (text: String) throws(CommandFailure) -> Answer in
                let answer = try read(text)
                asked += [question.option, text]
                return answer
            }
        }
        if let proposal = question.proposal { return try read(proposal) }
        missing.append(question.option)
        return nil
    }

    /// Apple's key, with its id.
    mutating func key(_ options: InitOptions, known: AppleKeyFile?) throws(CommandFailure) -> AppleKeyFile? {
        var question = Question.key
        // The simulator makes it in its own folder.
        if asks || options.simulator != nil { question.proposal = AppleKeyFile.onlyOne(in: FileManager.default.currentDirectoryPath) }
        var key = try answer(question, options.key, known) { path throws(CommandFailure) in try AppleKeyFile(path, id: options.keyID) }
        if key?.id == "" { key?.id = try answer(.keyID, nil, known?.id, InitAnswers.appleID) ?? "" }
        if let id = options.keyID, let known, try InitAnswers.appleID(id) != known.id { differing.append("--key-id") }
        return key
    }

    var areAnswered: Bool { missing.isEmpty && differing.isEmpty }

    /// - Parameter path: of the configuration.
    func failure(_ path: String) -> CommandFailure {
        guard differing.isEmpty else {
            let problem = "\(path.printable) says something else; siwatch init changes no configuration, so edit it, or leave them out"
            return .failed("\(differing.joined(separator: ", ")): \(problem)")
        }
        let place = missing.contains("--key-id") ? "; Apple shows the key's id beside the key, and named the file AuthKey_ID.p8" : ""
        let verb = missing.count == 1 ? "is" : "are"
        return .wrongUsage("\(missing.joined(separator: ", ")) \(verb) missing\(place); nothing was changed")
    }
}

extension CommandFailure {
    /// The failure, and the command that goes on from the answers that a person has given.
    func keeping(_ answers: [String]) -> CommandFailure {
        if answers.isEmpty { return self }
        let command = (["siwatch"] + Invocation.current.arguments + answers).map(\.shellQuoted).joined(separator: " ")
        return CommandFailure(code: code, messages: messages + ["\(command) goes on with your answers"])
    }
}

/// Single answers, by the rules of the configuration.
extension InitAnswers {
    private static func read<Value>(_ text: String, _ rule: ValueRule<Value>) throws(CommandFailure) -> Value {
        var mistakes: [ConfigurationMistake] = []
        if let value = rule.read(text.tomlValue, "", &mistakes) { return value }
        throw .wrongUsage(mistakes.map(\.problem).joined(separator: "; "))
    }

    /// - Parameter pasted: with spaces, or in small letters.
    static func appleID(_ pasted: String) throws(CommandFailure) -> String {
        try read(pasted.filter { !$0.isWhitespace }.uppercased(), .appleID)
    }

    /// - Parameter text: separated by spaces or commas.
    static func clientIDs(_ text: String) throws(CommandFailure) -> [String] {
        let clientIDs = text.split { $0 == " " || $0 == "," }.map(String.init)
        for clientID in clientIDs where !clientID.contains(".") {
            throw .wrongUsage("\(clientID.printable) is no App ID or Services ID such as com.example.app")
        }
        guard !clientIDs.isEmpty, Set(clientIDs).count == clientIDs.count else {
            throw .wrongUsage("one client id at least, and none twice")
        }
        for clientID in clientIDs { _ = try read(clientID, .clientID) }
        return clientIDs
    }

    /// The part of the first client id that names the product: `com.example.app` is of *example*.
    static func appName(of clientIDs: [String]?) -> String {
        let parts = clientIDs?.first?.split(separator: ".").map(String.init) ?? []
        return parts.last(where: { !["app", "ios", "web"].contains($0.lowercased()) && !FleetLane.isTaken($0) }) ?? "app"
    }

    /// - Parameter mayLookLikeClient: whether somebody has named the option, and so means it.
    static func appName(_ text: String, mayLookLikeClient: Bool) throws(CommandFailure) -> String {
        guard !FleetLane.isTaken(text) else { throw .wrongUsage("\(text.printable) has another meaning in the metrics") }
        guard mayLookLikeClient || !(text.looksLikeClientID && text.contains(".")) else {
            throw .wrongUsage("\(text.printable) looks like a client id: all of these stand on one line before; begin again")
        }
        return try read(text, .name)
    }

    static func database(_ text: String) throws(CommandFailure) -> String {
        guard DatabaseLocation.isAddress(text) else { return text.asPastedPath }
        return try read(text, .databaseURL) ?? text
    }

    /// Empty for none.
    static func address(_ text: String) throws(CommandFailure) -> String {
        try read(text == "none" ? "" : text, .httpListen()).map { "\($0)" } ?? ""
    }

    /// Empty for none.
    static func url(_ text: String) throws(CommandFailure) -> String {
        if text == "none" || text.isEmpty { return "" }
        if let danger = Configuration.Delivery(url: try read(text, .endpoint(mayHaveQuery: true))).danger { throw .wrongUsage(danger) }
        return text
    }

    /// Without the slash at the end.
    static func simulator(_ text: String) throws(CommandFailure) -> String {
        _ = try read(text, .endpoint())
        return text.hasSuffix("/") ? String(text.dropLast()) : text
    }

    /// Empty for none.
    static func passwordFile(_ text: String) throws(CommandFailure) -> String {
        if text.isEmpty { return "" }
        _ = try password(in: text.asPastedPath)
        return text.asPastedPath
    }

    static func password(in path: String) throws(CommandFailure) -> String {
        do { return try TextFile.read(path, limit: 4096) } catch { throw .wrongUsage("\(path.printable) \(error)") }
    }

    /// Empty for none.
    static func user(_ name: String) throws(CommandFailure) -> String {
        guard name.isEmpty || Account.User(name) != nil else { throw .wrongUsage("this host knows no user \(name.printable)") }
        return name
    }
}
