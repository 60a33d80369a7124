// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialMonitor
import Logging
import NIOConcurrencyHelpers

/// A log that keeps only the names of events.
struct LogRecorder: LogHandler {
    private let names = NIOLockedValueBox<[String]>([])

    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    var events: [String] { names.withLockedValue { $0 } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        if let name = event.metadata?["event"] { names.withLockedValue { $0.append("\(name)") } }
    }
}
