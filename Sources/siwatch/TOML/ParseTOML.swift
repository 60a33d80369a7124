// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation

/// The child process of a `TOMLParser`. It reads a document on standard input and writes a `ParsedDocument` as JSON on standard output, or
/// crashes.
///
/// It is no command of ArgumentParser, which needs longer to begin than a configuration to be parsed.
enum ParseTOML {
    static func arguments(processorSeconds: Int) -> [String] { ["siwatch", "parse-toml", "\(processorSeconds)"] }

    /// Does nothing in a process that was started for something else, and does not return otherwise.
    static func runIfAsked() {
        guard CommandLine.arguments.count == 3, let seconds = Int(CommandLine.arguments[2]),
            CommandLine.arguments.dropFirst() == arguments(processorSeconds: seconds).dropFirst()
        else { return }
        do {
            // The kernel enforces the limit, so that this process ends even if its parent no longer waits for it.
            limitProcessorTime(to: seconds)
            let text = String(decoding: try FileHandle.standardInput.readToEnd() ?? Data(), as: UTF8.self)
            try FileHandle.standardOutput.write(contentsOf: JSONEncoder().encode(document(of: text)))
            exit(0)
        } catch {
            exit(1)
        }
    }

    private static func document(of text: String) -> ParsedDocument {
        do {
            return .table(try ConfigurationTable(parsing: text))
        } catch {
            return .mistake(error)
        }
    }

    /// Lowers the soft limit only. At the hard limit the signal is SIGKILL, which does not tell the reason.
    private static func limitProcessorTime(to seconds: Int) {
        let resource = __rlimit_resource_t(RLIMIT_CPU.rawValue)
        var limits = rlimit()
        guard getrlimit(resource, &limits) == 0 else { return }
        limits.rlim_cur = min(rlim_t(clamping: seconds), limits.rlim_max)
        setrlimit(resource, &limits)
    }
}
