// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// How many people do what, and the pace of it.
enum Script {
    static let app = SimulatedApple.clientIDs[0]
    static let web = SimulatedApple.clientIDs[1]

    /// People who sign in together, and where.
    static let waves = [
        (count: 250, clientID: app), (count: 300, clientID: web), (count: 250, clientID: app), (count: 200, clientID: web),
    ]
    static let people = waves.map(\.count).reduce(0, +)
    /// Of the first wave, those who sign in on the web too.
    static let onBoth = 100
    /// Sign-ins whose code the backend sends twice.
    static let reportedTwice = 25

    static let mailOff = 60
    /// Of those with their mail off, those who switch it on again.
    static let mailOnAgain = 20
    /// Of those with their mail on again, those of whom siwatch hears in the wrong order.
    static let mailReversed = 10

    /// Revocations that Apple tells at once, by wave.
    static let revocations = [30, 30, 20]
    /// Of each wave, those that Apple tells twice.
    static let toldTwice = 10
    /// Revocations that Apple tells only after the person has signed in again.
    static let toldLate = 10
    /// Revocations that Apple never tells.
    static let silent = 30
    static let deletions = 40
    /// People who delete their accounts in the app, which has to revoke them at Apple then.
    static let leavers = 40
    /// Of each kind of notification that Apple never sent, or not to us, or long ago.
    static let forgeries = 5
    /// Of those whose revocation is known, those who sign in again.
    static let backAgain = 20

    /// How often a token is checked. A day, where Apple is not simulated.
    static let interval = Duration.seconds(5)
    /// Enough for all people once per interval, with room to spare.
    static let requestsPerSecond = 1000
    /// Between two things that happen, so that an eye can follow.
    static let beat = Duration.milliseconds(1500)
    static let breath = Duration.milliseconds(3000)
}

extension Duration {
    var milliseconds: Int { Int(self / .milliseconds(1)) }
}
