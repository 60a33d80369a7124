// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Work that one replica of a fleet does at a time.
package enum FleetLane: Hashable, Sendable {
    /// Asks Apple for an app, because Apple's limits hold for the whole fleet.
    case app(String)
    /// Does the housekeeping: deletes old rows, and counts what is counted once.
    case maintenance

    /// The text in tables: the name of the app, or empty for `maintenance`.
    package init(_ text: String) {
        self = text.isEmpty ? .maintenance : .app(text)
    }

    package var text: String {
        switch self {
        case .app(let name): name
        case .maintenance: ""
        }
    }
}

extension FleetLane: CustomStringConvertible {
    /// The name in logs.
    package var description: String {
        switch self {
        case .app(let name): name
        case .maintenance: "maintenance"
        }
    }
}

extension FleetLane: Comparable {
    package static func < (left: FleetLane, right: FleetLane) -> Bool { left.text < right.text }
}
