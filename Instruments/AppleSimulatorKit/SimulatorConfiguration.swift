// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// The settings of a simulator, fixed before it starts.
package struct SimulatorConfiguration: Sendable {
    /// The app groups that this Apple knows. No client may belong to two of them.
    package var groups: [AppGroup]
    /// The port on 127.0.0.1; 0 lets the system choose a free one.
    package var port = 0
    /// How many keys `/auth/keys` shows at first. Apple has shown three in most years.
    package var signingKeyCount = 3
    /// The key that signs at first, under an id of its own; nil for a new one.
    package var signingKey: SigningKey?
    /// Whether an answer to a refresh carries an id_token, as Apple's does since 2020. Signing one takes about 0.2 ms.
    package var refreshCarriesIDToken = true
    /// How long the simulator may repeat a successful answer to a refresh, access token included. It repeats them because RS256 is slow.
    package var answerReuse: Duration = .seconds(60)
    /// How long a code is good. Apple's live five minutes.
    package var codeLife: Duration = .seconds(300)
    /// The endpoint to post each emitted notification to, if any. `AppleSimulator.deliver(to:)` names another.
    package var delivery: DeliveryTarget?

    package init(groups: [AppGroup]) { self.groups = groups }
}

/// An endpoint that takes notifications, and Apple's patience with it.
package struct DeliveryTarget: Sendable {
    package var url: String
    /// Apple tries again after any status but 200. Its documents do not say how often and when, so these numbers are ours.
    package var attempts = 3
    package var pause: Duration = .seconds(5)
    package var timeout: Duration = .seconds(5)

    package init(url: String) { self.url = url }
}

/// The apps that share one consent: a primary App ID, the Services IDs grouped with it, and the keys enabled for them.
package struct AppGroup: Sendable {
    /// The ten characters of the `iss` of client secrets.
    package var teamID: String
    /// The primary App ID first, then the other App IDs and the Services IDs. Never empty.
    package var clientIDs: [String]
    package var keys: [RegisteredKey]

    package init(teamID: String = "A1B2C3D4E5", clientIDs: [String] = ["com.example.app", "com.example.web"], keys: [RegisteredKey]) {
        precondition(!clientIDs.isEmpty, "An app group has a primary App ID")
        (self.teamID, self.clientIDs, self.keys) = (teamID, clientIDs, keys)
    }

    package var primaryAppID: String { clientIDs[0] }
}
