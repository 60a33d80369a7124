// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What the simulator is told before it starts.
package struct SimulatorConfiguration: Sendable {
    /// The app groups that this Apple knows. No client may stand in two of them.
    package var groups: [AppGroup]
    /// The port on 127.0.0.1; 0 lets the system choose a free one.
    package var port = 0
    /// How far Apple's clock is ahead of the machine's; negative if it is behind.
    package var clockOffset: Duration = .zero
    /// How many keys `/auth/keys` shows at first. Apple has shown three in most years.
    package var signingKeyCount = 3
    /// Whether an answer to a refresh carries an id_token, as it does at Apple since 2020. Signing one takes about 0.2 ms.
    package var refreshCarriesIDToken = true
    /// For how long a successful answer to a refresh may be given again as it is, access token included, because RS256 is slow.
    package var answerReuse: Duration = .seconds(60)
    /// How notifications look where an emission does not say otherwise.
    package var style = NotificationStyle()
    /// Whether `/auth/revoke` also causes a `consent-revoked`. One project reads Apple's TN3194 that way; nobody has shown it.
    package var revocationNotifies = false
    /// Where each emitted notification is posted, if anywhere.
    package var delivery: DeliveryTarget?

    package init(groups: [AppGroup]) {
        self.groups = groups
    }
}

/// An endpoint that takes notifications, and how patient Apple is with it.
package struct DeliveryTarget: Sendable {
    package var url: String
    /// Apple tries again after anything but 200. How often and when is not documented, so these are our own numbers.
    package var attempts = 3
    package var pause: Duration = .seconds(5)
    package var timeout: Duration = .seconds(5)

    package init(url: String) {
        self.url = url
    }
}
