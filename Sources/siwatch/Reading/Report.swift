// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import CredentialCore
import Foundation

struct Report: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes what others need to help you, to paste into an issue: no user, no token, no name and no address.",
        discussion: """
            Version, findings, the last warnings of the daemon, the figures of siwatch status, and the configuration: numbers, durations, \
            flags and defaults as they are, of everything else only that it is set. In a finding, … stands for a name, a path or an \
            address. Read it before you paste it all the same.
            """
    )

    @OptionGroup var options: CommonOptions

    func run() async throws { try printOutput(try await lines().joined(separator: "\n")) }

    private func lines() async throws -> [String] {
        let versions = ["siwatch \(Version.current)"] + ((try? Dependencies().lines) ?? [])
        let configuration: Configuration
        do {
            configuration = try options.readConfiguration(opensDatabase: false)
        } catch {
            let mistakes = error.messages.count.counted("mistake")
            return versions + ["the configuration cannot be used for \(mistakes): siwatch doctor --before-start names what is wrong"]
        }
        let (findings, status, warnings) = await said()
        let redaction = Redaction(of: configuration, hiding: status.names().union([ProcessInfo.processInfo.hostName]))
        let parts: [(String, [String])] = [
            ("findings", findings.map { "\($0.severity.rawValue): \(redaction.of($0.sentence))" + ($0.runbook.map { " (\($0))" } ?? "") }),
            ("last warnings", warnings.map { "\($0.at.text) \($0.level) \($0.event): \($0.event == "library" ? "…" : $0.message)" }),
            ("configuration", configuration.disclosed.map { "\($0.key) = \($0.value)" }),
            ("figures", status.lines()),
        ]
        return versions + parts.flatMap { title, lines in ["", title] + (lines.isEmpty ? ["none"] : lines).map { "  \($0)" } }
    }

    private func said() async -> ([Finding], StatusFigure, [Warning]) {
        do {
            let said = try await StatusSaid(options)
            let document = Data(said.json.utf8)
            let status = try JSONDecoder().decode(StatusFigure.self, from: document)
            let warnings = try JSONDecoder().decode(Document.self, from: document).daemon?.warnings ?? []
            return (said.findings, status.withoutSentences, warnings)
        } catch {
            return ([Finding].all(of: error), .nothing, [])
        }
    }

    /// The member of the status that keeps sentences, besides the findings.
    private struct Document: Decodable {
        var daemon: Daemon?

        struct Daemon: Decodable {
            var warnings: [Warning]
        }
    }

    /// A line of the log without its fields, which hold all that varies.
    private struct Warning: Decodable {
        var at: Timestamp
        var level: String
        var event: String
        var message: String
    }
}

/// A value of the document of `siwatch status --json`.
private enum StatusFigure: Decodable {
    case nothing
    case figure(String)
    case text(String)
    case list([StatusFigure])
    case members([String: StatusFigure])

    /// Members whose texts are words of siwatch or of the engine.
    private static let shown: Set = ["sqlite", "postgresql", "queue", "health", "lane", "kind", "verdict", "operation"]
    /// Members whose own members have names from outside.
    private static let open: Set = ["deliveries", "overdue", "quarantined", "sealing_keys"]

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .nothing
        } else if let flag = try? value.decode(Bool.self) {
            self = .figure("\(flag)")
        } else if let number = try? value.decode(Int64.self) {
            self = .figure("\(number)")
        } else if let number = try? value.decode(Double.self) {
            self = .figure("\(number)")
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let list = try? value.decode([StatusFigure].self) {
            self = .list(list)
        } else {
            self = .members(try value.decode([String: StatusFigure].self))
        }
    }

    /// Without the findings and the lines of the log.
    var withoutSentences: StatusFigure {
        guard case .members(var members) = self else { return self }
        members["findings"] = nil
        if case .members(var daemon)? = members["daemon"] {
            daemon["warnings"] = nil
            members["daemon"] = .members(daemon)
        }
        return .members(members)
    }

    /// Each number, flag and word with its place.
    func lines(at place: String = "", of key: String = "") -> [String] {
        switch self {
        case .nothing: return []
        case .figure(let figure): return ["\(place) \(figure)"]
        case .text(let text): return Self.isWord(text, of: key) ? ["\(place) \(text)"] : []
        case .list(let list): return list.enumerated().flatMap { $0.element.lines(at: "\(place)[\($0.offset)]", of: key) }
        case .members(let members):
            return members.sorted { $0.key < $1.key }.enumerated().flatMap { index, member in
                let name = Self.open.contains(key) && RejectionReason(rawValue: member.key) == nil ? "\(index)" : member.key
                return member.value.lines(at: place.isEmpty ? name : "\(place).\(name)", of: member.key)
            }
        }
    }

    /// Texts that may be names of apps, clients, users, hosts and files. A sentence is none.
    func names(of key: String = "") -> Set<String> {
        switch self {
        case .nothing, .figure: return []
        case .text(let text): return Self.isWord(text, of: key) || key == "reason" || text.contains(" ") ? [] : [text]
        case .list(let list): return list.reduce(into: []) { $0.formUnion($1.names(of: key)) }
        case .members(let members):
            let own = Self.open.contains(key) ? members.keys.filter { RejectionReason(rawValue: $0) == nil } : []
            return members.reduce(into: Set(own)) { $0.formUnion($1.value.names(of: $1.key)) }
        }
    }

    private static func isWord(_ text: String, of key: String) -> Bool {
        switch key {
        case "state": CredentialState(rawValue: text) != nil
        case "version": text.wholeMatch(of: /[0-9]+\.[0-9]+\.[0-9]+/) != nil
        default: shown.contains(key)
        }
    }
}
