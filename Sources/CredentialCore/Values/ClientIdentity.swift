// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Who asked: the client, the key that signed its secret, and which load of the configuration both come from.
package struct ClientIdentity: Sendable, Hashable {
    package var clientID: String
    package var keyID: String
    /// 0 for the one at the start.
    package var load: Int

    package init(clientID: String, keyID: String, load: Int = 0) {
        self.clientID = clientID
        self.keyID = keyID
        self.load = load
    }
}
