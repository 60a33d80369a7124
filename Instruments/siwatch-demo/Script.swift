// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// How many people do each thing, and at what pace.
enum Script {
    static let app = SimulatedApple.clientIDs[0]
    static let web = SimulatedApple.clientIDs[1]

    /// People who sign in together, and where.
    static let waves = [
        (count: 250, clientID: app), (count: 300, clientID: web), (count: 250, clientID: app), (count: 200, clientID: web),
    ]
    static let people = waves.map(\.count).reduce(0, +)
    /// How many of them the backend signs in at a time.
    static let concurrentSignIns = 50
    /// People of the first wave who sign in on the web too.
    static let onBoth = 100
    /// Sign-ins whose code the backend sends twice.
    static let reportedTwice = 25

    static let mailOff = 60
    /// People with mail off who switch it on again.
    static let mailOnAgain = 20
    /// People with mail on again whose events reach siwatch in the wrong order.
    static let mailReversed = 10

    /// Revocations that Apple reports at once, by wave.
    static let revocations = [30, 30, 20]
    /// Revocations of each wave that Apple reports twice.
    static let toldTwice = 10
    /// Revocations that Apple reports only after the person has signed in again.
    static let toldLate = 10
    /// Revocations that Apple never reports.
    static let silent = 30
    static let deletions = 40
    /// People who delete their accounts in the app, so that it must revoke them at Apple.
    static let leavers = 40
    /// Notifications of each bad kind: not from Apple, not for our app, or too old.
    static let forgeries = 5
    /// People with a known revocation who sign in again.
    static let backAgain = 20

    /// How often siwatch checks a token. With the real Apple it is a day.
    static let interval = Duration.seconds(10)
    /// Enough to ask about all people once per interval, with room to spare.
    static let requestsPerSecond = 1000
    /// The pause between two steps, so that an eye can follow.
    static let beat = Duration.milliseconds(1500)
    static let breath = Duration.milliseconds(3000)
}

extension Duration {
    var milliseconds: Int { Int(self / .milliseconds(1)) }
}
