// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import ArgumentParser
import Foundation

/// The child process of a `TOMLParser`. It reads a document on standard input and writes a `ParsedDocument` as JSON on standard output, or
/// crashes.
struct ParseTOML: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parse-toml",
        abstract: "Parses a TOML document for another siwatch.",
        shouldDisplay: false
    )

    @Option var processorSeconds: Int

    func run() throws {
        // The kernel enforces the limit, so that this process ends even if its parent no longer waits for it.
        limitProcessorTime()
        let text = String(decoding: try FileHandle.standardInput.readToEnd() ?? Data(), as: UTF8.self)
        let answer: ParsedDocument
        do {
            answer = .table(try ConfigurationTable(parsing: text))
        } catch {
            answer = .mistake(error)
        }
        try FileHandle.standardOutput.write(contentsOf: JSONEncoder().encode(answer))
    }

    /// Lowers the soft limit only. At the hard limit the signal is SIGKILL, which does not tell the reason.
    private func limitProcessorTime() {
        let resource = __rlimit_resource_t(RLIMIT_CPU.rawValue)
        var limits = rlimit()
        guard getrlimit(resource, &limits) == 0 else { return }
        limits.rlim_cur = min(rlim_t(clamping: processorSeconds), limits.rlim_max)
        setrlimit(resource, &limits)
    }
}
