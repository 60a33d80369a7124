// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The clients of an app group, as configured.
package struct AppClients: Sendable, Equatable {
    package var name: String
    package var clientIDs: [String]

    package init(name: String, clientIDs: [String]) {
        self.name = name
        self.clientIDs = clientIDs
    }
}
