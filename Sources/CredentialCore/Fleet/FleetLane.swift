// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Work that one replica of a fleet does at a time.
package enum FleetLane: Hashable, Comparable, CustomStringConvertible, Sendable {
    /// Asks Apple for an app, because Apple's limits hold for the whole fleet.
    case app(String)
    case delivery(String)
    /// Does the housekeeping: deletes old rows, and counts what is counted once.
    case maintenance

    /// The text in tables: the name of the app, of the delivery after a mark that no app's name has, or empty for `maintenance`.
    package init(_ text: String) {
        self =
            if text.isEmpty {
                .maintenance
            } else if text.hasPrefix(Self.mark) {
                .delivery(String(text.dropFirst(Self.mark.count)))
            } else {
                .app(text)
            }
    }

    private static let mark = "webhooks\t"

    package var app: String? { if case .app(let name) = self { name } else { nil } }

    var delivery: String? { if case .delivery(let name) = self { name } else { nil } }

    package var text: String {
        switch self {
        case .app(let name): name
        case .delivery(let name): Self.mark + name
        case .maintenance: ""
        }
    }

    package var description: String { text.isEmpty ? "maintenance" : text.replacing("\t", with: " ") }

    /// Whether an app's name would stand for a lane of another kind in logs and metrics.
    package static func isTaken(_ app: String) -> Bool { app == "\(maintenance)" || app.hasPrefix("\(delivery(""))") }

    package static func < (left: FleetLane, right: FleetLane) -> Bool { left.text < right.text }
}
