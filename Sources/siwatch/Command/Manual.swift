// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

/// Writes the manual pages from the commands' own descriptions, so that neither can go stale.
///
/// Not by `generate-manual`, the plugin of swift-argument-parser 1.8. The plugin needs this package and a compiler; this command needs only
/// the installed program. The plugin's pages say "exits 0 on success, and >0 if an error occurs", have no environment, files, defaults or
/// values of an option, and list subcommands without descriptions. Hidden commands get pages too.
struct Manual: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Writes the manual pages into a folder.",
        shouldDisplay: false
    )

    @Argument(help: "The folder, which is made where it is not there.", completion: .directory) var folder: String

    func run() throws {
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let help = try JSONDecoder().decode(Help.self, from: Data(Siwatch._dumpHelp().utf8))
            for page in help.command.pages() {
                try page.text.write(toFile: "\(folder)/\(page.name).1", atomically: true, encoding: .utf8)
            }
        } catch {
            let reason = (error as NSError).userInfo[NSUnderlyingErrorKey] as? POSIXError
            let words = reason.map { systemError($0.code.rawValue) } ?? error.localizedDescription
            throw CommandFailure.failed("\(folder.printable) cannot be written to: \(words)")
        }
    }
}

/// The parts of ArgumentParser's description of a program that a manual needs.
private struct Help: Decodable {
    var command: Command

    struct Command: Decodable {
        var commandName: String
        var abstract: String?
        var discussion: String?
        var arguments: [Argument]?
        var subcommands: [Command]?
        var shouldDisplay: Bool
    }

    struct Argument: Decodable {
        var kind: String
        var names: [Name]?
        var valueName: String?
        var abstract: String?
        var isOptional: Bool
        var isRepeating: Bool
        var shouldDisplay: Bool
        var defaultValue: String?
        var allValueStrings: [String]?

        struct Name: Decodable {
            var kind: String
            var name: String
        }
    }
}

private struct ManualPage {
    var name: String
    var text: String
}

extension Help.Command {
    /// The pages of this command and of its subcommands.
    fileprivate func pages(below parents: [String] = []) -> [ManualPage] {
        guard shouldDisplay, commandName != "help" else { return [] }
        let path = parents + [commandName]
        return [ManualPage(name: path.joined(separator: "-"), text: page(path))] + children.flatMap { $0.pages(below: path) }
    }

    private var children: [Help.Command] { (subcommands ?? []).filter { $0.shouldDisplay && $0.commandName != "help" } }

    private func page(_ path: [String]) -> String {
        let name = path.joined(separator: "-")
        var lines = [
            #".\" Written by siwatch manual. Do not change it here."#,
            ".TH \(name.uppercased()) 1 \"\" \"siwatch \(Version.current)\" \"siwatch\"",
            ".SH NAME",
            "\(name.escaped) \\- \((abstract ?? "").withoutPeriod.escaped)",
            ".SH SYNOPSIS",
            ".B \(path.joined(separator: " ").escaped)",
        ]
        let shown = (arguments ?? []).filter(\.shouldDisplay)
        lines += children.isEmpty ? shown.map(\.synopsis) : ["\\fIcommand\\fR ..."]
        lines += [".SH DESCRIPTION", (abstract ?? "").escaped]
        for paragraph in (discussion ?? "").split(separator: "\n\n") { lines += [".PP", String(paragraph).escaped] }
        if !children.isEmpty {
            lines.append(".SH COMMANDS")
            for child in children {
                let page = (path + [child.commandName]).joined(separator: "-")
                lines += [".TP", ".BR \(page.escaped) (1)", (child.abstract ?? "").escaped]
            }
        }
        lines.append(".SH OPTIONS")
        for argument in shown { lines += [".TP", argument.term, argument.explanation] }
        lines += Self.common
        if path.count > 1 { lines += [".SH SEE ALSO", ".BR \(path.dropLast().joined(separator: "-").escaped) (1)"] }
        return lines.joined(separator: "\n") + "\n"
    }

    private static let common = [
        ".SH EXIT STATUS",
        ".TP", "0", "Done.",
        ".TP", "1", "Failed at run time.",
        ".TP", "3", "Of siwatch status: no daemon runs.",
        ".TP", "64", "Wrong usage.",
        ".TP", "69", "Unavailable: another siwatch holds the database, or a service that is needed is down.",
        ".TP", "70", "A bug in siwatch.",
        ".TP", "78", "The configuration, the keys or the database cannot be used.",
        ".SH ENVIRONMENT",
        ".TP", ".B SIWATCH_CONFIG", "The configuration file, where \\fB\\-\\-config\\fR does not name it.",
        ".SH FILES",
        ".TP", ".I /etc/siwatch/siwatch.toml", "The configuration file, where nothing names another.",
    ]
}

extension Help.Argument {
    private var longNames: [String] {
        (names ?? []).map { ($0.kind == "short" ? "-" : "--") + $0.name }
    }

    private var value: String {
        kind == "flag" ? "" : "\\fI\((valueName ?? "value").escaped)\\fR"
    }

    var synopsis: String {
        var text = kind == "positional" ? value : "\\fB\((longNames.last ?? "").escaped)\\fR"
        if kind == "option" { text += " " + value }
        if isRepeating { text += " ..." }
        return isOptional ? "[\(text)]" : text
    }

    var term: String {
        if kind == "positional" { return value }
        let names = longNames.map { "\\fB\($0.escaped)\\fR" }.joined(separator: ", ")
        return kind == "option" ? "\(names) \(value)" : names
    }

    var explanation: String {
        var text = abstract ?? ""
        if let allValueStrings, !allValueStrings.isEmpty, kind != "flag" { text += " One of \(allValueStrings.joined(separator: ", "))." }
        if let defaultValue, kind != "flag" { text += " Without it, \(defaultValue)." }
        return text.escaped
    }
}

extension String {
    /// Escaped for roff, so that no text becomes an escape or a request by accident.
    fileprivate var escaped: String {
        let text = replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("'", with: "\\(aq").replacing("`", with: "\\(ga")
            .replacing("…", with: "...")
        return text.split(separator: "\n").map { $0.hasPrefix(".") ? "\\&\($0)" : String($0) }.joined(separator: "\n")
    }

    fileprivate var withoutPeriod: String { hasSuffix(".") ? String(dropLast()) : self }
}
