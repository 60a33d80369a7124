// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What one replica of a fleet does at a time, and the others do not.
package enum FleetLane: Hashable, Sendable {
    /// Asks Apple for an app: its limits hold for the fleet.
    case app(String)
    /// Keeps house: forgets what is old, and counts what is counted once.
    case maintenance

    /// As tables hold it: the name of the app, or nothing.
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
    /// As logs name it.
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
