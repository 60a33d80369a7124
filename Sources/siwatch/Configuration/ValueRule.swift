// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import Foundation
import PostgresStore
import TOMLKit

/// How a value is read: the TOML type that it must have, and the values that are allowed.
struct ValueRule<Value> {
    /// Returns nil after it has noted the mistake.
    let read: (_ value: TOMLValue, _ path: String, _ mistakes: inout [ConfigurationMistake]) -> Value?

    /// - Parameter kind: the TOML type, for a sentence.
    static func ofType(_ kind: String, _ typed: @escaping (TOMLValue) -> Value?) -> ValueRule {
        ValueRule { value, path, mistakes in
            if let typed = typed(value) { return typed }
            mistakes.append(.at(path, "must be \(kind), not \(value.kind)"))
            return nil
        }
    }

    static func string(_ problem: String, _ parse: @escaping (String) -> Value?) -> ValueRule {
        ValueRule<String>.anyString.parsed(problem, parse)
    }

    /// - Parameter parse: Makes another value of what this rule has read. Returns nil if it has the problem.
    func parsed<Parsed>(_ problem: String, _ parse: @escaping (Value) -> Parsed?) -> ValueRule<Parsed> {
        ValueRule<Parsed> { value, path, mistakes in
            guard let value = read(value, path, &mistakes) else { return nil }
            if let parsed = parse(value) { return parsed }
            mistakes.append(.at(path, problem))
            return nil
        }
    }
}

extension ValueRule<Duration> {
    static var duration: ValueRule {
        .string("must be a positive duration such as \"24h\", \"1h30m\" or \"20ms\", with the units d h m s ms", Duration.init(configured:))
    }

    /// A shorter one was meant in another unit.
    static var retention: ValueRule {
        duration.parsed("must be at least an hour; m is minutes, and a month is \"30d\"") { $0 >= .hours(1) ? $0 : nil }
    }

    static func duration(upTo limit: Int) -> ValueRule {
        duration.parsed("must be at most \(limit)s") { $0 <= .seconds(limit) ? $0 : nil }
    }
}

extension ValueRule<Duration?> {
    static var retentionOrNever: ValueRule {
        let duration: ValueRule<Duration> = .retention
        return ValueRule { value, path, mistakes in
            value.string == "never" ? .some(nil) : duration.read(value, path, &mistakes)
        }
    }
}

extension ValueRule<Bool> {
    static var flag: ValueRule { ofType("true or false", \.bool) }
}

extension ValueRule<Int> {
    static var count: ValueRule { count(upTo: 1_000_000_000) }

    static func count(upTo limit: Int) -> ValueRule {
        ofType("a whole number", \.int).parsed("must be between 1 and \(limit)") { (1...limit).contains($0) ? $0 : nil }
    }
}

extension ValueRule<String> {
    static var anyString: ValueRule { ofType("a string", \.string) }

    static var text: ValueRule { .string("must not be empty") { $0.isEmpty ? nil : $0 } }

    /// The name of an app. It is a label of metrics and a column of tables.
    static var name: ValueRule {
        .string("must be 1 to 64 characters without control characters") { isName($0) ? $0 : nil }
    }

    static func isName(_ text: String) -> Bool { (1...64).contains(text.count) && !text.hasControlCharacters }

    /// The identifier of a team or a key, as Apple assigns it.
    static var appleID: ValueRule {
        .string("must be the 10 capital letters and digits that Apple shows") {
            $0.utf8.count == 10 && $0.utf8.allSatisfy { $0.isDigit || $0.isCapital } ? $0 : nil
        }
    }

    static var clientID: ValueRule {
        .string("must be one App ID or Services ID such as com.example.app, without the team: letters, digits, . and -") { text in
            let beginsWithTeam = text.wholeMatch(of: /[A-Z0-9]{10}\..+\..+/) != nil
            let isPlain = !text.isEmpty && text.utf8.allSatisfy { $0.isLetterOrDigit || "-._".utf8.contains($0) }
            return isPlain && !beginsWithTeam ? text : nil
        }
    }

    static var userID: ValueRule {
        .string("must be the sub of a user: 1 to 255 characters without control characters") {
            (1...255).contains($0.utf8.count) && !$0.hasControlCharacters ? $0 : nil
        }
    }

    static var schema: ValueRule { .string(schemaForm) { isSchema($0) ? $0 : nil } }

    static var schemaForm: String { "must be 1 to 63 characters a-z, 0-9 and _ that begin with no digit, and not with pg_" }

    static func isSchema(_ text: String) -> Bool {
        text.utf8.count <= 63 && !text.hasPrefix("pg_") && text.wholeMatch(of: /[a-z_][a-z0-9_]*/) != nil
    }

    /// - Parameter resolve: makes the path of a file of its name.
    static func file(_ resolve: @escaping (String) -> String) -> ValueRule {
        .string("must name a file; a key itself never stands here") {
            $0.isEmpty || $0.hasControlCharacters || $0.hasPrefix("-----") ? nil : resolve($0)
        }
    }
}

extension ValueRule {
    static func optional<Present>(_ rule: ValueRule<Present>) -> ValueRule where Value == Present? {
        ValueRule { value, path, mistakes in rule.read(value, path, &mistakes).map { .some($0) } }
    }
}

extension ValueRule<String?> {
    static func socket(_ resolve: @escaping (String) -> String) -> ValueRule {
        .string("must be a path of at most 107 bytes, or \"\" for none") { text in
            text.isEmpty ? .some(nil) : text.isSocketPath ? .some(resolve(text)) : nil
        }
    }

    /// A mistake never quotes the URL, because it may hold a password.
    static var databaseURL: ValueRule {
        ValueRule { value, path, mistakes in
            guard let text = ValueRule<String>.anyString.read(value, path, &mistakes) else { return nil }
            guard let problem = PostgresAddress.problem(of: text) else { return .some(text) }
            mistakes.append(.at(path, problem))
            return nil
        }
    }
}

extension ValueRule {
    /// A wrong element is replaced by an empty string.
    static func texts(_ rule: ValueRule<String>, mayBeEmpty: Bool = false) -> ValueRule where Value == [String] {
        list(of: rule, mayBeEmpty: mayBeEmpty, inPlaceOfWrong: "")
    }

    /// - Parameter other: takes the place of a wrong element, so that the others keep their numbers; nil to leave it out.
    static func list<Element>(
        of rule: ValueRule<Element>,
        mayBeEmpty: Bool = false,
        inPlaceOfWrong other: Element? = nil
    ) -> ValueRule where Value == [Element] {
        let anyList: ValueRule<[TOMLValue]> = .ofType("a list of strings") { $0.array?.map(\.tomlValue) }
        return ValueRule { value, path, mistakes in
            guard let elements = anyList.read(value, path, &mistakes) else { return nil }
            if elements.isEmpty, !mayBeEmpty { mistakes.append(.at(path, "must not be empty")) }
            return elements.enumerated().compactMap { index, element in
                rule.read(element, "\(path)[\(index)]", &mistakes) ?? other
            }
        }
    }
}

extension ValueRule where Value: RawRepresentable<String> & CaseIterable {
    static func choice() -> ValueRule {
        .string("must be one of " + Value.allCases.map(\.rawValue).joined(separator: ", ")) { Value(rawValue: $0) }
    }
}

extension ValueRule<ListenAddress?> {
    static var listenAddress: ValueRule {
        .string("must be host:port, such as \"127.0.0.1:9464\", or \"\" for none") { text in
            text.isEmpty ? .some(nil) : ListenAddress(text).map { .some($0) }
        }
    }
}

extension ValueRule<URL> {
    /// - Parameter mayHaveQuery: whether siwatch asks this very URL, and not paths below it.
    static func endpoint(mayHaveQuery: Bool = false) -> ValueRule {
        let others = mayHaveQuery ? "user, password or fragment" : "user, password, query or fragment"
        return .string("must be an https:// URL without \(others), with a port up to 65535; http:// is for loopback addresses only") {
            text in
            guard
                let url = URL(string: text, encodingInvalidCharacters: false), url.canBeAsked, let host = url.host,
                url.user == nil, url.password == nil, mayHaveQuery || url.query == nil, url.fragment == nil,
                url.scheme == "https" || url.scheme == "http" && Host.isLoopback(host)
            else { return nil }
            return url
        }
    }
}

extension Duration {
    /// Reads whole numbers with the units `d` `h` `m` `s` `ms`, each unit once and greater units first: `24h`, `1h30m`, `20ms`. Nil for zero,
    /// and beyond 274 years, because there nanoseconds overflow 64 bits and clocks trap.
    init?(configured text: String) {
        var rest = text[...]
        var total = Duration.zero
        for (unit, duration) in Self.units {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            let letters = rest[digits.endIndex...].prefix { $0.isLetter }
            guard letters == unit, let count = Int64(digits) else { continue }
            guard count <= Int64(Self.longestConfigurable / duration) else { return nil }
            total += duration * count
            rest = rest[letters.endIndex...]
        }
        guard rest.isEmpty, total > .zero, total <= Self.longestConfigurable else { return nil }
        self = total
    }

    private static let units: [(String, Duration)] = [
        ("d", .days(1)), ("h", .hours(1)), ("m", .minutes(1)), ("s", .seconds(1)), ("ms", .milliseconds(1)),
    ]

    private static let longestConfigurable = Duration.days(100_000)
}

extension String {
    fileprivate var hasControlCharacters: Bool { unicodeScalars.contains(where: \.isControl) }

    /// Whether a Unix socket may have this path: sun_path holds 108 bytes with a NUL.
    var isSocketPath: Bool { utf8.count <= 107 && !hasControlCharacters }
}
