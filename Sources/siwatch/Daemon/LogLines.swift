// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Logging
import NIOConcurrencyHelpers

/// One line on stderr for each event: text for people on a terminal, JSON for programs.
struct LogLines: LogHandler {
    var metadata: Logger.Metadata = [:]

    private let label: String
    private let output: LogOutput
    private var ownLevel: Logger.Level?

    init(label: String, output: LogOutput) {
        self.label = label
        self.output = output
    }

    /// The output's, until one is set here.
    var logLevel: Logger.Level {
        get { ownLevel ?? output.level }
        set { ownLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        // Only the libraries' own lines have no name. The gate comes first: in a flood most lines go no further.
        let name = (event.metadata?["event"] ?? metadata["event"]).map { "\($0)" } ?? "library"
        guard let held = output.admit(name) else { return }
        var fields = metadata.merging(event.metadata ?? [:]) { _, new in new }
        fields["event"] = nil
        if held > 0 { fields["suppressed"] = "\(held)" }
        output.write(
            LogLine(
                time: .now,
                level: event.level,
                name: name,
                message: "\(event.message)",
                label: label,
                fields: fields.sorted { $0.key < $1.key }.map { ($0.key, "\($0.value)") }
            )
        )
    }
}

/// Where all lines go, and how many of each kind.
final class LogOutput: Sendable {
    private let isJSON: Bool
    private let isJournal: Bool
    private let state: NIOLockedValueBox<State>

    private struct State {
        var level: Logger.Level
        var gate = FloodGate()
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
        state.withLockedValue { $0.gate.takeSuppressed() }
    }

    fileprivate func admit(_ name: String) -> Int? {
        state.withLockedValue { $0.gate.admit(name, at: .now) }
    }

    fileprivate func write(_ line: LogLine) {
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

/// Keeps a flood of one event from drowning the others.
struct FloodGate {
    /// Lines of one event that pass in each window.
    static let burst = 50
    static let window = Duration.seconds(10)

    private struct Window {
        var start: ContinuousClock.Instant
        var passed = 0
        var held = 0
    }

    private var windows: [String: Window] = [:]
    private var suppressed: [String: Int] = [:]

    /// - Returns: how many lines of the event were held back before this one, or nil where this one is too.
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

/// One line before it is written down.
struct LogLine {
    var time: Date
    var level: Logger.Level
    var name: String
    var message: String
    var label: String
    var fields: [(key: String, value: String)]

    /// For people: time, level, message, and then the fields.
    var text: String {
        let level = level.rawValue.uppercased().padding(toLength: 8, withPad: " ", startingAt: 0)
        return fields.reduce("\(stamp) \(level) \(message.withoutControls) event=\(name)") { line, field in
            "\(line) \(field.key)=\(field.value.isPlainWord ? field.value : field.value.jsonString)"
        }
    }

    /// One JSON object, its time as in RFC 3339.
    var json: String {
        let head = [("time", stamp), ("level", level.rawValue), ("event", name), ("message", message), ("logger", label)]
        return "{" + (head + fields).map { "\($0.0.jsonString):\($0.1.jsonString)" }.joined(separator: ",") + "}"
    }

    private var stamp: String { time.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}

extension Logger.Level {
    /// As syslog(3) and sd-daemon(3) number them.
    var priority: Int {
        switch self {
        case .trace, .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        case .critical: 2
        }
    }
}

extension String {
    /// With a space for every character that a terminal would obey.
    fileprivate var withoutControls: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 }))
    }

    fileprivate var isPlainWord: Bool {
        !isEmpty && unicodeScalars.allSatisfy { $0.value > 0x20 && $0 != "\"" && $0 != "\\" && $0 != "=" && !$0.isControl }
    }

    /// Quoted and escaped as RFC 8259 asks, the other control characters too: a terminal would obey them.
    fileprivate var jsonString: String {
        var escaped = "\""
        for scalar in unicodeScalars {
            switch scalar {
            case "\"": escaped += "\\\""
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\r": escaped += "\\r"
            case "\t": escaped += "\\t"
            case _ where scalar.isControl:
                let digits = String(scalar.value, radix: 16)
                escaped += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped + "\""
    }
}

extension Unicode.Scalar {
    fileprivate var isControl: Bool { value < 0x20 || (0x7f...0x9f).contains(value) }
}
