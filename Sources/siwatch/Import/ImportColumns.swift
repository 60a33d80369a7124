// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import Foundation

/// Which columns of a file mean what, by its first line.
struct ImportColumns {
    enum Role: String, CaseIterable {
        case userID = "user_id"
        case clientID = "client_id"
        case refreshToken = "refresh_token"
        case grantedAt = "granted_at"
        case email
        case emailIsPrivate = "email_is_private"
        /// Whose sign-in the line is.
        case provider

        /// What does in place of a column, as the end of a sentence.
        fileprivate static let alternatives: [Role: String] = [
            .userID: " (or sub)", .clientID: ", and no --client-id", .grantedAt: ", and no --granted-at",
        ]
    }

    /// The names of the id_token, which exports use too, and of libraries.
    private static let otherNames: [String: Role] = [
        "sub": .userID, "aud": .clientID, "is_private_email": .emailIsPrivate, "auth_provider": .provider, "identity_provider": .provider,
    ]

    /// As exports of databases and languages write an absent value.
    private static let emptyWords = Set(["", "\\N", "NULL", "null", "None", "nil"].map { Array($0.utf8) })

    /// What holds for all lines.
    struct Rules {
        /// The client of all lines; nil if a column names it.
        var clientID: String?
        /// The time of the lines without one, as the option gives it; nil if such a line is a bad one.
        var grantedAt: String?
        /// Whether the users may be somebody else's than Apple's.
        var anyID: Bool
        /// The clients that the configuration names and the database knows.
        var known: Set<String>
        /// A later sign-in is a mistake.
        var now: Timestamp
        /// Whose export the file is; nil for a file with siwatch's own columns.
        var source: ImportSource?

        fileprivate var latest: Timestamp { now.advanced(by: SettlementRules.longestLead) }

        fileprivate func fallback() throws(CommandFailure) -> Timestamp? {
            guard let grantedAt else { return nil }
            guard let time = ImportedTime(Array(grantedAt.utf8))?.time else { throw .wrongUsage("--granted-at \(ImportedTime.rule)") }
            guard time <= latest else { throw .wrongUsage("--granted-at lies in the future") }
            return time
        }
    }

    private(set) var places: [Role: Int] = [:]
    private(set) var unknown: [String] = []
    /// The time of the lines without one; nil if such a line is a bad one.
    let fallback: Timestamp?
    private let names: [String]
    private var count: Int { names.count }
    private let rules: Rules

    /// - Throws: if a column is missing, or named twice. Then it is probably a file of something else.
    init(header: CSVRecord, _ rules: Rules) throws(CommandFailure) {
        self.rules = rules
        fallback = try rules.fallback()
        names = header.fields.map { String(decoding: $0, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines).lowercased() }
        guard count <= CSVRecord.mostFields else { throw .wrongUsage("the first line has more than \(CSVRecord.mostFields) fields") }
        for (place, name) in names.enumerated() {
            guard let role = self.role(of: name) else {
                unknown.append(name)
                continue
            }
            guard places.updateValue(place, forKey: role) == nil else {
                throw .wrongUsage("two columns are the \(role.rawValue): \(name.printable) is the second")
            }
        }
        if rules.clientID != nil, places[.clientID] != nil {
            throw .wrongUsage("the file has a column \(Role.clientID.rawValue): leave out --client-id")
        }
        var needed = [Role.userID, rules.source == nil ? .refreshToken : .provider]
        if rules.clientID == nil { needed.append(.clientID) }
        if rules.grantedAt == nil { needed.append(.grantedAt) }
        let missing = needed.filter { places[$0] == nil }
        guard missing.isEmpty else { throw failure(missing) }
        if let clientID = rules.clientID, !rules.known.contains(clientID) { throw Self.unknownClients([clientID]) }
    }

    /// The role of a column by its name. Platforms give names of siwatch's to other values.
    private func role(of name: String) -> Role? {
        let own = Role(rawValue: name)
        guard let source = rules.source, source.users == nil else { return own ?? Self.otherNames[name] }
        if let own, source.names[own] == nil { return own }
        return Role.allCases.first { role in source.names[role]?.first(where: { names.contains($0) }) == name }
    }

    /// Names the clients of which siwatch knows nothing. A text that looks like no client is not shown, because it may be a token.
    static func unknownClients(_ clientIDs: Set<String>) -> CommandFailure {
        let names = clientIDs.sorted().map { $0.looksLikeClientID ? $0 : "a client_id that looks like none" }
        let list = Set(names).sorted().joined(separator: ", ")
        return .wrongUsage("siwatch does not know \(list): name the client in an [[app]] of the configuration, and restart siwatch")
    }

    private func failure(_ missing: [Role]) -> CommandFailure {
        // Without a header, the first line holds a token and a user.
        let isHeader = names.allSatisfy(\.looksLikeColumnName)
        let sentences = missing.map { role in
            let name = rules.source?.names[role]?.first ?? role.rawValue
            let near = isHeader ? (name.nearest(among: names).map { ", only \($0)" } ?? "") : ""
            let alternative = rules.source != nil && role == .userID ? "" : Role.alternatives[role] ?? ""
            return "the first line names no column \(name)\(alternative)\(near)"
        }
        let columns = "It has \(names.count.counted("column")); the first line is probably not a header"
        let found = isHeader ? "It names: \(names.prefix(20).joined(separator: ", "))" : columns
        let expected = rules.source.map { "; \($0.expectation)" } ?? ""
        return .wrongUsage(sentences.joined(separator: "; ") + ". \(found)\(expected)")
    }

    /// For people: the columns that siwatch does not use. A name that looks like a value is not shown.
    var ignored: String {
        let names = unknown.filter(\.looksLikeColumnName)
        let rest = unknown.count - names.count
        return (names + (rest > 0 ? ["\(rest.counted("other"))"] : [])).joined(separator: ", ")
    }

    /// Whether the record is about Apple. An export has the users of all providers; in a file of siwatch's own columns they are a mistake.
    func counts(_ record: CSVRecord) -> Bool {
        guard rules.source != nil, !rules.anyID, record.fields.count == count, let place = places[.provider] else { return true }
        return Self.isApple(String(decoding: record.fields[place], as: UTF8.self))
    }

    /// `apple`, `apple.com`, `oauth_apple`, `SignInWithApple`.
    private static func isApple(_ provider: String) -> Bool { provider.lowercased().contains("apple") }

    func lacksTime(_ record: CSVRecord) -> Bool {
        guard record.fields.count == count else { return false }
        return places[.grantedAt].map { Self.emptyWords.contains(record.fields[$0]) } ?? true
    }

    /// The other columns of a line that hold what looks like a user of Apple's, without names that look like values.
    func lookalikes(in record: CSVRecord) -> [String] {
        guard let place = places[.userID], !AppleUserID.isLike(record.fields[place]) else { return [] }
        return zip(names, record.fields).filter { $0.looksLikeColumnName && AppleUserID.isLike($1) }.map { $0.0 }
    }

    func unknownClient(of record: CSVRecord) -> String? {
        guard record.fields.count == count, let name = try? identifier(.clientID, record), !rules.known.contains(name) else { return nil }
        return name
    }

    /// - Parameter unit: the unit of the column; nil while it is not known.
    func signIn(of record: CSVRecord, in unit: ImportedTime.Unit?) throws(BadLine) -> (signIn: ToldSignIn, unit: ImportedTime.Unit?) {
        guard record.fields.count <= CSVRecord.mostFields else { throw record.bad("more than \(CSVRecord.mostFields) fields") }
        guard record.fields.count == count else { throw record.bad("\(record.fields.count) fields, where the first line has \(count)") }
        guard let userID = try identifier(.userID, record) else { throw record.bad("\(Role.userID.rawValue) is empty") }
        let provider = try text(.provider, record, upTo: Longest.identifier)
        if !rules.anyID, let provider, !Self.isApple(provider) { throw foreign(.provider, provider, record) }
        if !rules.anyID, !AppleUserID.isLike(userID.utf8) { throw foreign(.userID, userID, record) }
        // `??` would forget the type of the error.
        let named = try identifier(.clientID, record)
        guard let client = rules.clientID ?? named else { throw record.bad("\(Role.clientID.rawValue) is empty") }
        guard rules.known.contains(client) else { throw record.bad("siwatch does not know this \(Role.clientID.rawValue)") }
        let time = try time(record, unit)
        let token = try text(.refreshToken, record, upTo: Longest.token)
        if let token, token.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7f }) {
            throw record.bad("\(Role.refreshToken.rawValue) holds a character that no token of Apple's has")
        }
        let isPrivate = try flag(record)
        let address = try text(.email, record, upTo: Longest.address).map { EmailAddress($0, isPrivate: isPrivate) }
        guard let signedInAt = time?.time ?? fallback else {
            throw record.bad("\(Role.grantedAt.rawValue) is empty, and there is no --granted-at")
        }
        let signIn = ToldSignIn(
            clientID: client,
            userID: userID,
            proof: token.map { ToldSignIn.Proof.refreshToken(Secret($0)) },
            address: address,
            signedInAt: signedInAt
        )
        return (signIn, time?.unit)
    }

    /// The value is shown only if it can be neither an address nor a token.
    private func foreign(_ role: Role, _ value: String, _ record: CSVRecord) -> BadLine {
        let shown = value.contains("@") ? "an e-mail address" : value.utf8.count > 50 ? "a long text" : "\"\(value.printable)\""
        let problem = "\(role.rawValue) \(role == .provider ? "is not Apple" : "does not look like Apple's")"
        return record.bad(problem, foreign: "\(role.rawValue) is \(shown)")
    }

    private func time(_ record: CSVRecord, _ unit: ImportedTime.Unit?) throws(BadLine) -> ImportedTime? {
        guard let place = places[.grantedAt], !Self.emptyWords.contains(record.fields[place]) else { return nil }
        let name = Role.grantedAt.rawValue
        guard let time = ImportedTime(record.fields[place]) else { throw record.bad("\(name) \(ImportedTime.rule)") }
        if let unit, unit != time.unit {
            throw record.bad("\(name) is in \(time.unit.rawValue), and the column is in \(unit.rawValue)")
        }
        guard time.time <= rules.latest else { throw record.bad("\(name) lies in the future") }
        return time
    }

    private func flag(_ record: CSVRecord) throws(BadLine) -> Bool? {
        guard let word = try text(.emailIsPrivate, record, upTo: 5) else { return nil }
        switch word.lowercased() {
        case "1", "t", "true": return true
        case "0", "f", "false": return false
        default: throw record.bad("\(Role.emailIsPrivate.rawValue) is not true, false, 1, 0 or empty")
        }
    }

    /// Nil if the column is not there or the field is empty.
    private func identifier(_ role: Role, _ record: CSVRecord) throws(BadLine) -> String? {
        guard let name = try text(role, record, upTo: Longest.identifier) else { return nil }
        guard !name.unicodeScalars.contains(where: { $0.properties.isWhitespace || $0.properties.generalCategory == .control }) else {
            throw record.bad("\(role.rawValue) holds white space or a control character")
        }
        return name
    }

    /// Nil if the column is not there or the field is empty.
    private func text(_ role: Role, _ record: CSVRecord, upTo limit: Int) throws(BadLine) -> String? {
        guard let place = places[role] else { return nil }
        let bytes = record.fields[place]
        if Self.emptyWords.contains(bytes) { return nil }
        guard bytes.count <= limit else { throw record.bad("\(role.rawValue) is longer than \(limit) bytes") }
        guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
            throw record.bad("\(role.rawValue) is not UTF-8 text")
        }
        return text
    }
}

extension CSVRecord {
    fileprivate func bad(_ problem: String, foreign: String? = nil) -> BadLine {
        BadLine(line: line, problem: problem, foreign: foreign, noun: noun)
    }
}

extension String {
    /// Whether the text may be the name of a column. A token, a `sub` and an address hold other characters or are longer.
    fileprivate var looksLikeColumnName: Bool {
        (1...32).contains(count) && allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" || $0 == " " }
    }
}
