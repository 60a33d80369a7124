// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The sender of a request to Apple: the client, the key that signed its secret, their team, and the load of the configuration.
package struct ClientIdentity: Sendable, Hashable {
    package var clientID: String
    package var keyID: String
    /// Nil if nothing was signed.
    package var teamID: String?
    /// Which load of the configuration; 0 is the first.
    package var load: Int

    package init(clientID: String, keyID: String, teamID: String? = nil, load: Int = 0) {
        self.clientID = clientID
        self.keyID = keyID
        self.teamID = teamID
        self.load = load
    }
}
