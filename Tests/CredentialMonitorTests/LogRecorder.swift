// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Logging
import NIOConcurrencyHelpers

/// A log that keeps its lines and the names of their events.
struct LogRecorder: LogHandler {
    private let kept = NIOLockedValueBox<(lines: [String], events: [String])>(([], []))
    private let atEachEntry: @Sendable () -> Void

    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level

    init(logLevel: Logger.Level = .debug, atEachEntry: @escaping @Sendable () -> Void = {}) {
        self.logLevel = logLevel
        self.atEachEntry = atEachEntry
    }

    var lines: [String] { kept.withLockedValue(\.lines) }
    var events: [String] { kept.withLockedValue(\.events) }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        atEachEntry()
        kept.withLockedValue { kept in
            kept.lines.append("\(event.message) \(event.metadata ?? [:])")
            if let name = event.metadata?["event"] { kept.events.append("\(name)") }
        }
    }
}
