// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

extension CommandFailure {
    /// A word in the place of a command that names none. ArgumentParser suggests options, but no commands.
    ///
    /// Nil if the words name a command, or an option stands before one.
    init?(unknownCommandIn words: some Sequence<String>) {
        var (command, path): (any ParsableCommand.Type, String) = (Siwatch.self, Siwatch._commandName)
        for word in words {
            let commands = command.configuration.subcommands
            guard !commands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = commands.first(where: { $0._commandName == word || $0.configuration.aliases.contains(word) }) else {
                let known = commands.filter { $0.configuration.shouldDisplay }.map { $0._commandName }
                let near = word.nearest(among: known).map { "; did you mean \(path) \($0)?" } ?? ""
                self = .wrongUsage("\(path) has no command \"\(word.printable)\"\(near)\n\(path) --help lists all commands")
                return
            }
            command = next
            path += " \(word)"
        }
        return nil
    }
}
