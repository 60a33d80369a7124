// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The apps that share one consent: a primary App ID, the Services IDs grouped with it, and the keys enabled for them.
package struct AppGroup: Sendable {
    /// The ten characters of the `iss` of client secrets.
    package var teamID: String
    /// The primary App ID first, then the other App IDs and the Services IDs. Never empty.
    package var clientIDs: [String]
    package var keys: [RegisteredKey]

    package init(teamID: String = "A1B2C3D4E5", clientIDs: [String] = ["com.example.app", "com.example.web"], keys: [RegisteredKey]) {
        precondition(!clientIDs.isEmpty, "An app group has a primary App ID")
        self.teamID = teamID
        self.clientIDs = clientIDs
        self.keys = keys
    }

    package var primaryAppID: String { clientIDs[0] }
}
