// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Who asked: the client, the key that signed its secret, the team of both, and which load of the configuration they come from.
package struct ClientIdentity: Sendable, Hashable {
    package var clientID: String
    package var keyID: String
    /// Nil where nothing was signed.
    package var teamID: String?
    /// 0 for the one at the start.
    package var load: Int

    package init(clientID: String, keyID: String, teamID: String? = nil, load: Int = 0) {
        self.clientID = clientID
        self.keyID = keyID
        self.teamID = teamID
        self.load = load
    }
}
