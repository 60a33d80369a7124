// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// Where answers come from: options, a person, or proposals.
struct Questions {
    /// Whether a person can be asked.
    let asks: Bool
    /// The options without which there is no answer.
    private(set) var missing: [String] = []

    /// - Parameters:
    ///   - given: the value of the option; nil if it was left out.
    ///   - proposal: what is taken where nobody says otherwise; nil if there is nothing to propose.
    ///   - read: throws why a text is no answer.
    /// - Returns: nil if the option is missing.
    mutating func answer<Answer>(
        _ option: String,
        _ given: String?,
        _ question: String,
        proposal: String? = nil,
        read: (String) throws(CommandFailure) -> Answer
    ) throws(CommandFailure) -> Answer? {
        if let given {
            do { return try read(given) } catch { throw .wrongUsage("\(option): \(error)") }
        }
        if asks { return try Terminal.ask(question, proposal: proposal, read) }
        if let proposal { return try read(proposal) }
        missing.append(option)
        return nil
    }

    /// Apple's key, with its id.
    mutating func key(_ options: InitOptions) throws(CommandFailure) -> AppleKeyFile? {
        let proposal = asks ? AppleKeyFile.onlyOne(in: FileManager.default.currentDirectoryPath) : nil
        var key = try answer("--key", options.key, "Apple's key, the .p8 file", proposal: proposal) { path throws(CommandFailure) in
            try AppleKeyFile(path, id: options.keyID)
        }
        if key?.id == "" {
            let question = "The key's id, ten characters, which Apple shows beside the key"
            key?.id = try answer("--key-id", nil, question, read: InitAnswers.appleID) ?? ""
        }
        return key
    }

    /// Names the missing options.
    var failure: CommandFailure {
        let place = missing.contains("--key-id") ? "; Apple shows the key's id beside the key, and named the file AuthKey_ID.p8" : ""
        let verb = missing.count == 1 ? "is" : "are"
        return .wrongUsage("\(missing.joined(separator: ", ")) \(verb) missing\(place); nothing was changed")
    }
}

/// Single answers.
extension InitAnswers {
    /// - Parameter pasted: with spaces, or in small letters.
    static func appleID(_ pasted: String) throws(CommandFailure) -> String {
        let text = pasted.filter { !$0.isWhitespace }.uppercased()
        let isOne = text.utf8.count == 10 && text.utf8.allSatisfy { $0.isDigit || $0.isCapital }
        guard isOne else { throw .wrongUsage("must be the 10 capital letters and digits that Apple shows") }
        return text
    }

    /// - Parameter text: separated by spaces or commas.
    static func clientIDs(_ text: String, teamID: String?) throws(CommandFailure) -> [String] {
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

    /// - Parameter mayLookLikeClient: whether somebody has named the option, and so means it.
    static func appName(_ text: String, mayLookLikeClient: Bool) throws(CommandFailure) -> String {
        guard ValueRule<String>.isName(text) else { throw .wrongUsage("a name has 1 to 64 characters") }
        guard !FleetLane.isTaken(text) else { throw .wrongUsage("\(text.printable) has another meaning in the metrics") }
        guard mayLookLikeClient || !(text.looksLikeClientID && text.contains(".")) else {
            throw .wrongUsage("\(text.printable) looks like a client id: all of these stand on one line before; begin again")
        }
        return text
    }

    static func database(_ text: String) throws(CommandFailure) -> String {
        guard DatabaseLocation.isAddress(text) else { return text.asPastedPath }
        if let problem = Configuration.Database.problem(ofURL: text) { throw .wrongUsage(problem) }
        return text
    }

    /// Empty for none.
    static func address(_ text: String) throws(CommandFailure) -> String {
        if text == "none" || text.isEmpty { return "" }
        guard text.hasPrefix("/") || ListenAddress(text) != nil else {
            throw .wrongUsage("must be host:port, such as 127.0.0.1:9465, the path of a Unix socket, or none")
        }
        return text
    }

    /// Empty for none.
    static func url(_ text: String) throws(CommandFailure) -> String {
        if text == "none" || text.isEmpty { return "" }
        var mistakes: [ConfigurationMistake] = []
        let rule: ValueRule<URL> = .endpoint(mayHaveQuery: true)
        let danger = rule.read(.string(text), "url", &mistakes).flatMap { Configuration.Delivery(url: $0).danger }
        if let problem = mistakes.first?.problem ?? danger { throw .wrongUsage(problem) }
        return text
    }

    static func passwordFile(_ text: String) throws(CommandFailure) -> String? {
        if text.isEmpty { return nil }
        let path = text.asPastedPath
        do {
            _ = try TextFile.read(path, limit: 4096)
        } catch {
            throw .wrongUsage("\(path.printable) \(error)")
        }
        return path
    }

    static func user(_ name: String) throws(CommandFailure) -> String? {
        if name.isEmpty { return nil }
        guard Account.User(name) != nil else { throw .wrongUsage("this host knows no user \(name.printable)") }
        return name
    }
}
