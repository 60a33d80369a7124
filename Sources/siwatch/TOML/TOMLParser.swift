// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// Parses TOML in a child process, so that a document that crashes the parser harms nobody; or in this one, for texts that harm nobody.
///
/// The child is siwatch itself, started once more as `parse-toml`. It is started by its open file, so that a daemon whose program was
/// replaced on disk still parses as before.
struct TOMLParser: Sendable {
    /// Nil is this process.
    var program: String? = "/proc/self/exe"
    /// How long the parser may compute, in whole seconds of processor time. A busy machine does not use this time up.
    var processorSeconds = 5

    /// The limit for the whole exchange, in case the machine stands still.
    private static let timeout = Duration.seconds(30)

    func parse(_ text: String) throws(UnparsedDocument) -> ConfigurationTable {
        guard let program else {
            do { return try ConfigurationTable(parsing: text) } catch { throw .mistake(error) }
        }
        let (output, end) = try run(text, by: program)
        if let answer = try? JSONDecoder().decode(ParsedDocument.self, from: Data(output)) {
            switch answer {
            case .table(let table): return table
            case .mistake(let mistake): throw .mistake(mistake)
            }
        }
        throw switch end {
        case .signal(SIGXCPU): .endless(seconds: processorSeconds)
        // The signal came from outside: memory ran out, or the whole service was ended.
        case .signal(let signal) where [SIGKILL, SIGTERM, SIGINT].contains(signal): .noAnswer("was ended by \(Self.name(of: signal))")
        case .signal(let signal): .deadly(signal: Self.name(of: signal))
        case .status(let status): .noAnswer("ended with status \(status)")
        case .killed: .noAnswer("gave no answer within \(Self.timeout.components.seconds) s")
        }
    }

    private func run(_ text: String, by program: String) throws(UnparsedDocument) -> (output: [UInt8], end: ParserProcess.End) {
        do {
            let process = try ParserProcess(program, ParseTOML.arguments(processorSeconds: processorSeconds))
            return process.exchange(Array(text.utf8), within: Self.timeout)
        } catch {
            throw .noAnswer("cannot be started: \(error)")
        }
    }

    private static func name(of signal: Int32) -> String {
        "signal \(signal)" + (strsignal(signal).map { ", \(String(cString: $0))" } ?? "")
    }
}

/// The answer of `parse-toml`.
enum ParsedDocument: Codable {
    case table(ConfigurationTable)
    case mistake(ConfigurationMistake)
}

/// Why a document has no table.
enum UnparsedDocument: Error, Equatable {
    case mistake(ConfigurationMistake)
    /// The document ended the process that parsed it.
    case deadly(signal: String)
    /// The document took longer than any configuration does.
    case endless(seconds: Int)
    /// Nobody knows whether the document is wrong. The text says what the parser did, as the end of a sentence.
    case noAnswer(String)

    var mistake: ConfigurationMistake {
        switch self {
        case .mistake(let mistake): mistake
        case .deadly(let signal):
            ConfigurationMistake(place: .file, problem: "cannot be read as TOML: its parser died of it (\(signal)), and cannot say where")
        case .endless(let seconds):
            ConfigurationMistake(place: .file, problem: "cannot be read as TOML: its parser was not done after \(seconds) s of computing")
        case .noAnswer(let reason):
            ConfigurationMistake(place: .file, problem: "could not be parsed: the parser's process \(reason)")
        }
    }

    /// Whether another try may succeed.
    var isTransient: Bool {
        if case .noAnswer = self { true } else { false }
    }
}
