// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser

/// One line of a command that looks for what is wrong.
struct Symptom {
    enum Verdict: Comparable {
        case ok, warning, wrong
    }

    var verdict: Verdict
    var sentence: String
    var remedy: String?

    init(_ verdict: Verdict, _ sentence: String, _ remedy: String? = nil) {
        self.verdict = verdict
        self.sentence = sentence
        self.remedy = remedy
    }

    static func all(of error: any Error) -> [Symptom] { CommandFailure(database: error).messages.map { Symptom(.wrong, $0) } }

    var text: String {
        "\("\(verdict)".padded(to: 9))\(sentence)" + (remedy.map { "\n\("".padded(to: 9))\($0)" } ?? "")
    }

    /// Prints all, and ends the command as the worst says.
    ///
    /// - Throws: `ExitCode`, unless all are ok.
    static func conclude(_ symptoms: [Symptom]) throws {
        try printOutput(symptoms.map(\.text).joined(separator: "\n"))
        switch symptoms.map(\.verdict).max() {
        case .wrong: throw ExitCode(Finding.Severity.down.exitCode)
        case .warning: throw ExitCode(Finding.Severity.degraded.exitCode)
        case .ok, nil: break
        }
    }
}
