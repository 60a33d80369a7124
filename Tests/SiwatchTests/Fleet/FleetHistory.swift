// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit

/// What has happened to a fleet so far, as far as it explains what is found.
struct FleetHistory: Sendable {
    var strikes: [FleetFault.Kind: Int] = [:]
    var deaths = 0
    /// How often somebody who had asked Apple has lost what it had in hand: it died, or was kept apart for longer than its claims last.
    var losses = 0
    /// Who has gone on where it stood, and when.
    var thaws: [Thaw] = []
    var ends: [End] = []
    /// How often a replica said that the disk was full.
    var fullDisks = 0
    /// The most that any process has held.
    var largest: Footprint?
    /// I8 and I9, of those who are dead: what was found when they were buried.
    var findings: [String] = []

    struct Thaw: Sendable {
        let replica: Int
        let at: Moment
    }

    /// Of a replica that nobody had killed.
    struct End: Sendable, CustomStringConvertible {
        let status: Int32
        let lastWords: String
        /// Whether something had struck over which it may end.
        let hasCause: Bool

        /// Whether systemd starts it again, as it does not after 64 and 78, and nobody has to look for a crash.
        var isInOrder: Bool { hasCause && [69, 70, 1].contains(status) }
        var description: String { "\(status): \(lastWords)" }
    }

    /// Requests of those who did not own the app. Between its last look at the lease and the first byte of one a process can be frozen all
    /// the same, and then that one comes when it goes on.
    func unexplained(_ strays: [Traffic.Stray]) -> [Traffic.Stray] {
        thaws.reduce(strays) { strays, thaw in
            let late = strays.firstIndex {
                $0.caller == "\(thaw.replica)" && (Duration.zero ... .milliseconds(500)).contains($0.at - thaw.at)
            }
            return strays.enumerated().filter { $0.offset != late }.map(\.element)
        }
    }
}
