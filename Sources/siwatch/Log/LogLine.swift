// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Foundation
import Logging

struct LogLine {
    var time: Date
    var level: Logger.Level
    var name: String
    var message: String
    var label: String
    var fields: [(key: String, value: String)]

    /// For people. The journal has its own time.
    func text(hasTime: Bool = true) -> String {
        let level = level.rawValue.uppercased().padding(toLength: 8, withPad: " ", startingAt: 0)
        let head = hasTime ? "\(stamp) \(level)" : level
        return fields.reduce("\(head) \(message.escaped { $0.isPrintable ? nil : " " }) event=\(name)") { line, field in
            "\(line) \(field.key)=\(field.value.isPlainWord ? field.value : field.value.jsonString)"
        }
    }

    /// One JSON object.
    var json: String {
        let head = [("time", stamp), ("level", level.rawValue), ("event", name), ("message", message), ("logger", label)]
        return "{" + (head + fields).map { "\($0.0.jsonString):\($0.1.jsonString)" }.joined(separator: ",") + "}"
    }

    var at: Timestamp { Timestamp(milliseconds: Int64(time.timeIntervalSince1970 * 1000)) }

    /// Without those that name one user or one notification.
    var shownFields: [String: String] {
        Dictionary(uniqueKeysWithValues: fields.filter { !["user", "jti"].contains($0.key) })
    }

    private var stamp: String { time.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)) }
}

/// Writes one line to stderr for each event: text for people on a terminal, JSON for programs.
struct LogLines: LogHandler {
    var metadata: Logger.Metadata = [:]

    private let label: String
    private let output: LogOutput
    private var ownLevel: Logger.Level?

    init(label: String, output: LogOutput) {
        self.label = label
        self.output = output
    }

    /// The output's level, until one is set here.
    var logLevel: Logger.Level {
        get { ownLevel ?? output.level }
        set { ownLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        // Only lines of libraries have no name. The rate limit comes first, because in a flood most lines go no further.
        let name = (event.metadata?["event"] ?? metadata["event"]).map { "\($0)" } ?? "library"
        guard let held = output.admit(name) else { return }
        var fields = metadata.merging(event.metadata ?? [:]) { _, new in new }
        fields["event"] = nil
        if held > 0 { fields["suppressed"] = "\(held)" }
        let shown = fields.sorted { $0.key < $1.key }.map { (key: $0.key, value: "\($0.value)") }
        output.write(LogLine(time: .now, level: event.level, name: name, message: "\(event.message)", label: label, fields: shown))
    }
}

/// As the document of `siwatch status` has it.
extension LogLine: Encodable {
    func encode(to encoder: any Encoder) throws {
        try encoder.encode(["at": at, "level": level.rawValue, "event": name, "message": message, "fields": shownFields])
    }
}

extension Logger.Level {
    /// The priority as in syslog(3) and sd-daemon(3).
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
    fileprivate var isPlainWord: Bool {
        !isEmpty && unicodeScalars.allSatisfy { $0.value > 0x20 && $0 != "\"" && $0 != "\\" && $0 != "=" && $0.isPrintable }
    }

    /// Quoted and escaped as RFC 8259 asks. All other characters that are invisible or that a terminal would obey are escaped too.
    fileprivate var jsonString: String {
        let text = escaped { scalar in
            switch scalar {
            case "\"": "\\\""
            case "\\": "\\\\"
            case "\n": "\\n"
            case "\r": "\\r"
            case "\t": "\\t"
            default: scalar.isPrintable ? nil : scalar.jsonEscape
            }
        }
        return "\"\(text)\""
    }
}
