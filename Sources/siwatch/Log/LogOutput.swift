// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Logging
import NIOConcurrencyHelpers

/// Where all lines go, and how many of each kind.
final class LogOutput: Sendable {
    private let isJSON: Bool
    private let isJournal: Bool
    private let state: NIOLockedValueBox<State>

    private struct State {
        var level: Logger.Level
        var rateLimit = LogRateLimit()
    }

    init(_ log: Configuration.Log) {
        isJSON =
            switch log.format {
            case .auto: isatty(STDERR_FILENO) == 0
            case .text: false
            case .json: true
            }
        isJournal = Self.isJournal(STDERR_FILENO, stream: ProcessInfo.processInfo.environment["JOURNAL_STREAM"])
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

    /// - Returns: how many lines of the event were held back before this one, or nil where this one is too.
    func admit(_ name: String) -> Int? {
        state.withLockedValue { $0.rateLimit.admit(name, at: .now) }
    }

    func write(_ line: LogLine) {
        printError((isJournal ? "<\(line.level.priority)>" : "") + (isJSON ? line.json : line.text))
    }

    /// Whether a descriptor is the socket that systemd connected to the journal, as systemd.exec(5) says to find out.
    ///
    /// - Parameter stream: `$JOURNAL_STREAM`, device and inode in decimal. All sockets are on one device.
    static func isJournal(_ descriptor: Int32, stream: String?) -> Bool {
        guard let inode = stream?.split(separator: ":").last else { return false }
        return (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")) == "socket:[\(inode)]"
    }
}
