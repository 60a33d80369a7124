// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

/// A word in the place of a command that names none. ArgumentParser suggests options, but no commands.
struct UnknownCommand {
    /// The commands before it, `siwatch` first.
    let path: [String]
    let word: String
    let known: [String]

    /// Nil if the words name a command, or an option stands before one.
    init?(in arguments: some Sequence<String>, of root: any ParsableCommand.Type) {
        var (command, path) = (root, [root._commandName])
        for word in arguments {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = commands.first(where: { $0._commandName == word || $0.configuration.aliases.contains(word) }) else {
                self.path = path
                self.word = word
                known = commands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
                return
            }
            command = next
            path.append(word)
        }
        return nil
    }

    var failure: CommandFailure {
        let place = path.joined(separator: " ")
        let near = word.nearest(among: known).map { "; did you mean \(place) \($0)?" } ?? ""
        return .wrongUsage("\(place) has no command \"\(word.printable)\"\(near)\n\(place) --help lists all commands")
    }
}
