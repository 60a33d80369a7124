// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// One user at one client.
package struct CredentialID: Sendable, Hashable, Codable {
    package var clientID: String
    package var userID: String

    package init(clientID: String, userID: String) {
        self.clientID = clientID
        self.userID = userID
    }
}
