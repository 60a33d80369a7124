// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The person in front of the command.
enum Terminal {
    /// Whether somebody can read a question and answer it.
    static var isThere: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Asks for a yes. Everything else is a no.
    ///
    /// - Returns: nil if nobody can be asked.
    static func confirms(_ question: String) -> Bool? {
        guard isThere else { return nil }
        try? FileHandle.standardError.write(contentsOf: Data("\(question) [y/N] ".utf8))
        return ["y", "yes"].contains(readLine()?.lowercased() ?? "")
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
        while true {
            let suffix = proposal.map { $0.isEmpty ? "" : " [\($0.printable)]" } ?? ""
            try? FileHandle.standardError.write(contentsOf: Data("\(question)\(suffix): ".utf8))
            guard let line = readLine() else { throw .wrongUsage("the answers ended early; nothing was changed") }
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
