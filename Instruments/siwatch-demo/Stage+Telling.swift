// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness

/// What the app's backend writes, and the ledger with it.
extension Stage {
    func tell(_ signIns: [SimulatedApple.SignIn]) async throws {
        try await backend.insert(signIns)
        ledger.tell(signIns)
    }

    func tell(_ events: some Collection<AppleEvent>) async throws {
        try await backend.insert(notifications: events.map(\.body))
        ledger.tell(events)
    }

    /// - Parameter reason: why siwatch has to put them into quarantine.
    func tell(_ bodies: [String], rejectedAs reason: String) async throws {
        try await backend.insert(notifications: bodies)
        ledger.tell(rejected: bodies.count, as: reason)
    }

    /// Lets people sign in again where they did before.
    func tellSignIns(of people: [Person]) async throws {
        for (clientID, people) in Dictionary(grouping: people, by: \.clientID) {
            try await tell(apple.signInAgain(people, clientID: clientID))
        }
    }
}
