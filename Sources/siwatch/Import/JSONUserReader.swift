// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation

/// Reads a file of JSON user by user, and makes a record of each identity, with siwatch's own columns.
///
/// It finds where a user ends by brackets and quotes, because Foundation's parsers take a whole file. It holds one user.
struct JSONUserReader: RecordReader {
    private var bytes: ByteReader
    private let name: String
    private let source: ImportSource
    private let users: (list: String?, identities: String)
    private var records: ArraySlice<CSVRecord> = [CSVRecord(line: 0, fields: roles.map { Array($0.rawValue.utf8) })]
    private static let roles = [ImportColumns.Role.userID, .refreshToken, .grantedAt, .email, .provider]
    /// Of the last user.
    private var line = 1
    private var number = 0
    /// Whether any user has had a list of identities.
    private var hasIdentities = false
    private var depth = 0
    /// How deep the users stand: on their own, in an array, or in an array that is a member of an object.
    private let userDepth: Int
    private var isInList: Bool

    var offset: Int { bytes.offset }
    var digest: SHA256 { bytes.digest }

    init(descriptor: Int32, name: String, _ source: ImportSource) throws(CommandFailure) {
        (self.name, self.source) = (name, source)
        users = source.users ?? (nil, "")
        bytes = try ByteReader(descriptor: descriptor, name: name)
        let first = bytes.unread.first { !" \t\r\n".utf8.contains($0) }
        guard first == UInt8(ascii: "{") || first == UInt8(ascii: "[") else {
            throw .wrongUsage("\(name) is no JSON; \(source.expectation)")
        }
        userDepth = first == UInt8(ascii: "[") ? 1 : users.list == nil ? 0 : 2
        isInList = userDepth < 2
    }

    mutating func next() throws(CommandFailure) -> CSVRecord? {
        while records.isEmpty {
            guard let user = try nextUser() else {
                if hasIdentities { return nil }
                throw .wrongUsage("\(name) has no user with \(users.identities); \(source.expectation)")
            }
            records = try makeRecords(of: user)[...]
        }
        return records.removeFirst()
    }

    /// The text of the next user; nil at the end of the file.
    private mutating func nextUser() throws(CommandFailure) -> [UInt8]? {
        var user: [UInt8] = []
        // The last text outside of users: the name of a list.
        var word: [UInt8] = []
        var (isQuoted, isEscaped) = (false, false)
        while let byte = try bytes.next() {
            if byte == UInt8(ascii: "\n") { line += 1 }
            if !user.isEmpty { user.append(byte) }
            guard user.count <= CSVReader.longestRecord else { throw unreadable("the user is longer than 1 MiB") }
            if isQuoted {
                if isEscaped || byte == UInt8(ascii: "\\") {
                    isEscaped.toggle()
                } else if byte == UInt8(ascii: "\"") {
                    isQuoted = false
                } else if user.isEmpty, word.count < 100 {
                    word.append(byte)
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""):
                isQuoted = true
                word = []
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                if depth == 1, userDepth == 2 { isInList = byte == UInt8(ascii: "[") && word == Array((users.list ?? "").utf8) }
                if depth == userDepth, isInList, byte == UInt8(ascii: "{") { user = [byte] }
                depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                if depth == userDepth, !user.isEmpty { return user }
            default: break
            }
        }
        guard depth == 0, !isQuoted else { throw unreadable("the file ends in the middle") }
        return nil
    }

    private mutating func makeRecords(of text: [UInt8]) throws(CommandFailure) -> [CSVRecord] {
        guard var user = try? JSONSerialization.jsonObject(with: Data(text)) as? [String: Any] else {
            throw unreadable("the user that ends there is no JSON")
        }
        // Cognito's members are pairs of a list.
        for pair in user["Attributes"] as? [[String: Any]] ?? [] {
            if let name = pair["Name"] as? String { user[name] = pair["Value"] }
        }
        var value = user[users.identities]
        // Cognito's list is a text.
        if let text = value as? String { value = try? JSONSerialization.jsonObject(with: Data(text.utf8)) }
        guard let list = value as? [[String: Any]] else { return [] }
        hasIdentities = true
        var found: [CSVRecord] = []
        for identity in list {
            number += 1
            let fields = Self.roles.map { role -> [UInt8] in
                for name in source.names[role] ?? [role.rawValue] {
                    if let text = Self.text(identity[name]) ?? Self.text(user[name]) { return Array(text.utf8) }
                }
                return []
            }
            found.append(CSVRecord(line: number, fields: fields, noun: "identity"))
        }
        return found
    }

    /// Nil for null, an empty text, a list or an object.
    private static func text(_ value: Any?) -> String? {
        switch value {
        case let text as String: text.isEmpty ? nil : text
        case let number as NSNumber: "\(number)"
        default: nil
        }
    }

    private func unreadable(_ reason: String) -> CommandFailure {
        .failed("\(name), line \(line): \(reason); nothing from this line on can be read; \(source.expectation)")
    }
}
