// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Logging

/// One line on stderr for each event: text for people on a terminal, JSON for programs.
struct LogLines: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    private let label: String
    private let isJSON: Bool

    init(label: String, level: Logger.Level, format: Configuration.Log.Format) {
        self.label = label
        logLevel = level
        isJSON =
            switch format {
            case .auto: isatty(STDERR_FILENO) == 0
            case .text: false
            case .json: true
            }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let fields = metadata.merging(event.metadata ?? [:]) { _, new in new }.sorted { $0.key < $1.key }
        let time = Date.now.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
        printError(isJSON ? json(time, event, fields) : text(time, event, fields))
    }

    private func text(_ time: String, _ event: LogEvent, _ fields: [(key: String, value: Logger.MetadataValue)]) -> String {
        let level = event.level.rawValue.uppercased()
        let message = "\(time) \(level.padding(toLength: 8, withPad: " ", startingAt: 0)) \(event.message)"
        return fields.reduce(message) { "\($0) \($1.key)=\(Self.quoted("\($1.value)"))" }
    }

    private func json(_ time: String, _ event: LogEvent, _ fields: [(key: String, value: Logger.MetadataValue)]) -> String {
        let head = [("time", time), ("level", event.level.rawValue), ("message", "\(event.message)"), ("logger", label)]
        let pairs = head + fields.map { ($0.key, "\($0.value)") }
        return "{" + pairs.map { "\(Self.quoted($0.0, always: true)):\(Self.quoted($0.1, always: true))" }.joined(separator: ",") + "}"
    }

    /// A JSON string; a plain word may stand as it is.
    private static func quoted(_ text: String, always: Bool = false) -> String {
        let isPlain = !text.isEmpty && text.unicodeScalars.allSatisfy { $0.value > 0x20 && $0 != "\"" && $0 != "\\" && $0.value != 0x7f }
        if isPlain, !always { return text }
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return (try? encoder.encode(text)).map { String(decoding: $0, as: UTF8.self) } ?? "\"\""
    }
}
