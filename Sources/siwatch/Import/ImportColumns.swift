// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// What is wrong with a line of a file.
struct BadLine: Error, Equatable {
    var line: Int
    /// Without a value of the line, because a token may stand in the wrong column.
    var problem: String

    var text: String { "line \(line): \(problem)" }
}

/// Which columns of a file mean what, by its first line.
struct ImportColumns {
    enum Role: String, CaseIterable {
        case userID = "user_id"
        case clientID = "client_id"
        case refreshToken = "refresh_token"
        case grantedAt = "granted_at"
        case email
        case emailIsPrivate = "email_is_private"
    }

    /// The names of the id_token, which exports use too.
    private static let otherNames: [String: Role] = ["sub": .userID, "aud": .clientID, "is_private_email": .emailIsPrivate]

    private(set) var places: [Role: Int] = [:]
    /// Columns that siwatch does not use.
    private(set) var unknown: [String] = []
    private let count: Int
    private let clientID: String?
    private let known: Set<String>
    private let latest: Timestamp

    /// - Parameters:
    ///   - clientID: the client of all lines; nil if a column names it.
    ///   - known: the clients of the configuration.
    ///   - now: a later sign-in is a mistake.
    /// - Throws: if a column is missing, or named twice. Then it is probably a file of something else.
    init(header: CSVRecord, clientID: String?, known: Set<String>, now: Timestamp) throws(CommandFailure) {
        self.clientID = clientID
        self.known = known
        latest = now.advanced(by: SettlementRules.longestLead)
        count = header.fields.count
        let names = header.fields.map { String(decoding: $0, as: UTF8.self).trimmed.lowercased() }
        for (place, name) in names.enumerated() {
            guard let role = Role(rawValue: name) ?? Self.otherNames[name] else {
                unknown.append(name)
                continue
            }
            guard places.updateValue(place, forKey: role) == nil else {
                throw .wrongUsage("two columns are the \(role.rawValue): \(name.printable) is the second")
            }
        }
        if clientID != nil, places[.clientID] != nil {
            throw .wrongUsage("the file has a column \(Role.clientID.rawValue): leave out --client-id")
        }
        var missing = [Role.userID, .refreshToken].filter { places[$0] == nil }
        if clientID == nil, places[.clientID] == nil { missing.append(.clientID) }
        guard missing.isEmpty else { throw Self.failure(missing, among: names) }
        guard let clientID, !known.contains(clientID) else { return }
        throw .wrongUsage("--client-id: no app of the configuration has \(clientID.printable)")
    }

    private static func failure(_ missing: [Role], among names: [String]) -> CommandFailure {
        let sentences = missing.map { role in
            let other = role == .userID ? " (or sub)" : role == .clientID ? ", and no --client-id" : ""
            let near = role.rawValue.nearest(among: names).map { ", only \($0.printable)" } ?? ""
            return "the first line names no column \(role.rawValue)\(other)\(near)"
        }
        let found = names.prefix(20).map(\.printable).joined(separator: ", ")
        return .wrongUsage(sentences.joined(separator: "; ") + ". It names: \(found)")
    }

    /// - Parameter unit: the unit of the column; nil while it is not known.
    func signIn(of record: CSVRecord, in unit: ImportedTime.Unit?) throws(BadLine) -> (signIn: ToldSignIn, unit: ImportedTime.Unit?) {
        guard record.fields.count == count else {
            throw BadLine(line: record.line, problem: "\(record.fields.count) fields, where the first line has \(count)")
        }
        guard let userID = try text(.userID, record, upTo: Longest.identifier) else {
            throw BadLine(line: record.line, problem: "\(Role.userID.rawValue) is empty")
        }
        // `??` would forget the type of the error.
        let named = try text(.clientID, record, upTo: Longest.identifier)
        guard let client = clientID ?? named else {
            throw BadLine(line: record.line, problem: "\(Role.clientID.rawValue) is empty")
        }
        guard known.contains(client) else {
            throw BadLine(line: record.line, problem: "no app of the configuration has this \(Role.clientID.rawValue)")
        }
        let time = try time(record, unit)
        let token = try text(.refreshToken, record, upTo: Longest.token)
        if let token, token.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7f }) {
            throw BadLine(line: record.line, problem: "\(Role.refreshToken.rawValue) holds a character that no token of Apple's has")
        }
        let isPrivate = try flag(record)
        let address = try text(.email, record, upTo: Longest.address).map { EmailAddress($0, isPrivate: isPrivate) }
        let signIn = ToldSignIn(
            clientID: client,
            userID: userID,
            proof: token.map { ToldSignIn.Proof.refreshToken(Secret($0)) },
            address: address,
            // A sign-in of an unknown time outdates nothing that is known.
            signedInAt: time?.time ?? Timestamp.legal.lowerBound
        )
        return (signIn, time?.unit)
    }

    private func time(_ record: CSVRecord, _ unit: ImportedTime.Unit?) throws(BadLine) -> ImportedTime? {
        guard let place = places[.grantedAt], !record.fields[place].isEmpty else { return nil }
        let name = Role.grantedAt.rawValue
        guard let time = ImportedTime(record.fields[place]) else {
            throw BadLine(line: record.line, problem: "\(name) is no time from 2019 on in seconds, milliseconds or ISO 8601")
        }
        if let unit, unit != time.unit {
            throw BadLine(line: record.line, problem: "\(name) is in \(time.unit.rawValue), and the column is in \(unit.rawValue)")
        }
        guard time.time <= latest else { throw BadLine(line: record.line, problem: "\(name) lies in the future") }
        return time
    }

    private func flag(_ record: CSVRecord) throws(BadLine) -> Bool? {
        guard let word = try text(.emailIsPrivate, record, upTo: 5) else { return nil }
        switch word.lowercased() {
        case "1", "t", "true": return true
        case "0", "f", "false": return false
        default: throw BadLine(line: record.line, problem: "\(Role.emailIsPrivate.rawValue) is not true, false, 1, 0 or empty")
        }
    }

    /// Nil if the column is not there or the field is empty.
    private func text(_ role: Role, _ record: CSVRecord, upTo limit: Int) throws(BadLine) -> String? {
        guard let place = places[role] else { return nil }
        let bytes = record.fields[place]
        guard bytes.count <= limit else { throw BadLine(line: record.line, problem: "\(role.rawValue) is longer than \(limit) bytes") }
        guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
            throw BadLine(line: record.line, problem: "\(role.rawValue) is not UTF-8 text")
        }
        return text.isEmpty ? nil : text
    }
}

extension String {
    /// Without spaces around it.
    fileprivate var trimmed: String { String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed()) }
}
