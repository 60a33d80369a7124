// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The person in front of the command.
enum Terminal {
    /// Asks for a yes. Everything else is a no.
    ///
    /// - Returns: nil if nobody can be asked.
    static func confirms(_ question: String) -> Bool? {
        let console = Invocation.current.console
        guard console.hasPerson else { return nil }
        console.writeError("\(question) [y/N] ")
        return ["y", "yes"].contains(console.readLine()?.lowercased() ?? "")
    }

    /// Asks for a yes before something is done.
    ///
    /// - Parameter end: what is so without a yes.
    static func requireYes(_ question: String, orElse end: String) throws(CommandFailure) {
        guard let answer = confirms(question) else { throw .wrongUsage("\(end); repeat the command with --yes") }
        guard answer else { throw .wrongUsage("not confirmed; \(end)") }
    }

    /// Asks until an answer is good.
    ///
    /// - Parameters:
    ///   - proposal: the answer of an empty line; nil if the question needs one.
    ///   - read: throws why an answer is none.
    /// - Throws: `CommandFailure` at the end of the input.
    static func ask<Answer>(
        _ question: String,
        proposal: String? = nil,
        _ read: (String) throws(CommandFailure) -> Answer
    ) throws(CommandFailure) -> Answer {
        let console = Invocation.current.console
        while true {
            let suffix = proposal.map { $0.isEmpty ? "" : " [\($0.printable)]" } ?? ""
            console.writeError("\(question)\(suffix): ")
            guard let line = console.readLine() else { throw .wrongUsage("the answers ended early; nothing was changed") }
            let text = line.trimmingCharacters(in: .whitespaces)
            guard let answer = text.isEmpty ? proposal : text else { continue }
            do {
                return try read(answer)
            } catch {
                for message in error.messages { printError("  \(message)") }
            }
        }
    }
}
