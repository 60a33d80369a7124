// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Foundation
import Logging
import NIOConcurrencyHelpers

/// Where all lines go, and how many lines of each event pass.
final class LogOutput: Sendable {
    let writer: LogWriter
    private let text: @Sendable (LogLine) -> String
    private let state: NIOLockedValueBox<State>

    private struct State {
        var level: Logger.Level
        var rateLimit = LogRateLimit()
        var warnings: [LogLine] = []
    }

    private static let mostWarnings = 20

    init(_ log: Configuration.Log, descriptor: Int32 = Invocation.current.console.error) {
        let isJournal = Self.isJournal(descriptor)
        let isJSON =
            switch log.format {
            case .auto: isatty(descriptor) == 0 && !isJournal
            case .text: false
            case .json: true
            }
        let text: @Sendable (LogLine) -> String = { line in
            let text = isJSON ? line.json : line.text(hasTime: !isJournal)
            return isJournal ? "<\(line.level.priority)>\(text)" : text
        }
        self.text = text
        writer = LogWriter(to: descriptor) { dropped in
            let (event, fields) = (LoggedEvent.logLinesDropped, [(key: "count", value: "\(dropped)")])
            return text(
                LogLine(time: .now, level: event.level, name: event.name, message: event.message, label: "siwatch", fields: fields)
            )
        }
        state = NIOLockedValueBox(State(level: log.level))
    }

    var level: Logger.Level {
        get { state.withLockedValue(\.level) }
        set { state.withLockedValue { $0.level = newValue } }
    }

    /// How many lines of each event were held back since the last call.
    func takeSuppressed() -> [String: Int] { state.withLockedValue { $0.rateLimit.takeSuppressed() } }

    func admit(_ name: String) -> Int? { state.withLockedValue { $0.rateLimit.admit(name, at: .now) } }

    /// The last warnings and errors, oldest first.
    var warnings: [LogLine] { state.withLockedValue(\.warnings) }

    func write(_ line: LogLine) {
        if line.level >= .warning { state.withLockedValue { $0.warnings = ($0.warnings + [line]).suffix(Self.mostWarnings) } }
        writer.write(text(line))
    }

    /// Whether a descriptor is the socket that systemd connected to the journal. systemd.exec(5) describes this test.
    ///
    /// - Parameter stream: `$JOURNAL_STREAM`, device and inode in decimal. All sockets are on one device.
    static func isJournal(_ descriptor: Int32, stream: String? = Invocation.current.environment["JOURNAL_STREAM"]) -> Bool {
        guard let inode = stream?.split(separator: ":").last else { return false }
        return (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")) == "socket:[\(inode)]"
    }
}

/// Limits how many lines of one event are written, so that a flood of them does not hide other events.
struct LogRateLimit {
    /// How many lines of one event pass in each window.
    static let burst = 50
    static let window = Duration.seconds(10)

    private struct Window {
        var start: ContinuousClock.Instant
        var passed = 0
        var held = 0
    }

    private var windows: [String: Window] = [:]
    private var suppressed: [String: Int] = [:]

    /// - Returns: how many lines of the event were held back before this one. Nil if this line is held back too.
    mutating func admit(_ event: String, at now: ContinuousClock.Instant) -> Int? {
        var window = windows[event] ?? Window(start: now)
        defer { windows[event] = window }
        if now - window.start >= Self.window { window = Window(start: now, held: window.held) }
        guard window.passed < Self.burst else {
            window.held += 1
            suppressed[event, default: 0] += 1
            return nil
        }
        window.passed += 1
        defer { window.held = 0 }
        return window.held
    }

    mutating func takeSuppressed() -> [String: Int] {
        defer { suppressed = [:] }
        return suppressed
    }
}
