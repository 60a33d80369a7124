// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Logging

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
