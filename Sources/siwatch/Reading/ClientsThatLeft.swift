// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

extension CredentialReader {
    /// The clients that the configuration does not name, and of whose tokens some wait for a check. Nobody asks Apple about them.
    func clientsThatLeft(_ configuration: Configuration) async throws -> [ClientStatus] {
        var left: [ClientStatus] = []
        for client in try await clients() where !configuration.clientIDs.contains(client.clientID) {
            if try await hasScheduledCredentials(clientID: client.clientID) { left.append(client) }
        }
        return left
    }
}
