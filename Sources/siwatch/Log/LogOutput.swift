// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Foundation
import Logging
import NIOConcurrencyHelpers

/// Where all lines go, and how many lines of each event pass.
final class LogOutput: Sendable {
    private let form: Form
    private let writer: LogWriter
    private let state: NIOLockedValueBox<State>

    private struct State {
        var level: Logger.Level
        var rateLimit = LogRateLimit()
        /// The last warnings and errors, oldest first.
        var warnings: [LogLine] = []
    }

    private static let mostWarnings = 20

    private struct Form {
        var isJSON: Bool
        var isJournal: Bool

        func text(_ line: LogLine) -> String {
            let text = isJSON ? line.json : line.text(hasTime: !isJournal)
            return isJournal ? "<\(line.level.priority)>\(text)" : text
        }
    }

    init(_ log: Configuration.Log, descriptor: Int32 = Invocation.current.console.error) {
        let isJournal = Self.isJournal(descriptor)
        let isJSON =
            switch log.format {
            case .auto: isatty(descriptor) == 0 && !isJournal
            case .text: false
            case .json: true
            }
        let form = Form(isJSON: isJSON, isJournal: isJournal)
        self.form = form
        writer = LogWriter(to: descriptor) { dropped in
            let event = LoggedEvent.logLinesDropped
            return form.text(
                LogLine(
                    time: .now,
                    level: event.level,
                    name: event.name,
                    message: event.message,
                    label: "siwatch",
                    fields: [("count", "\(dropped)")]
                )
            )
        }
        state = NIOLockedValueBox(State(level: log.level))
    }

    var level: Logger.Level {
        get { state.withLockedValue(\.level) }
        set { state.withLockedValue { $0.level = newValue } }
    }

    /// How many lines of each event were held back since the last call.
    func takeSuppressed() -> [String: Int] {
        state.withLockedValue { $0.rateLimit.takeSuppressed() }
    }

    /// The lines that could not be written since the start; nil if all were.
    var lostLines: LostLines? { writer.lostLines }

    /// How many lines were dropped since the last call, because nobody read the lines before them, or the system refused them.
    func takeDropped() -> Int { writer.takeDropped() }

    /// Waits until all lines are written, at most for the limit. For the end of the process.
    func drain(within limit: Duration) { writer.drain(within: limit) }

    func admit(_ name: String) -> Int? {
        state.withLockedValue { $0.rateLimit.admit(name, at: .now) }
    }

    /// The last warnings and errors, oldest first.
    var warnings: [LogLine] { state.withLockedValue(\.warnings) }

    func write(_ line: LogLine) {
        if line.level >= .warning { state.withLockedValue { $0.warnings = ($0.warnings + [line]).suffix(Self.mostWarnings) } }
        writer.write(form.text(line))
    }

    /// Whether a descriptor is the socket that systemd connected to the journal. systemd.exec(5) describes this test.
    ///
    /// - Parameter stream: `$JOURNAL_STREAM`, device and inode in decimal. All sockets are on one device.
    static func isJournal(
        _ descriptor: Int32,
        stream: String? = Invocation.current.environment["JOURNAL_STREAM"]
    ) -> Bool {
        guard let inode = stream?.split(separator: ":").last else { return false }
        return (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")) == "socket:[\(inode)]"
    }
}
