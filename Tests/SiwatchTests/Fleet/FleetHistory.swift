// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit

/// The events of a fleet so far, as far as they explain findings.
struct FleetHistory: Sendable {
    var strikes: [FleetFault.Kind: Int] = [:]
    var deaths = 0
    /// How often a replica that asked Apple lost its work in hand, because it died or was cut off for longer than its claims last.
    var losses = 0
    /// The replicas that have thawed, and when.
    var thaws: [Thaw] = []
    var ends: [End] = []
    /// How often a replica reported a full disk.
    var fullDisks = 0
    /// The largest footprint of any process.
    var largest: Footprint?
    /// I8 and I9: findings about dead replicas, recorded after their end.
    var findings: [String] = []

    struct Thaw: Sendable {
        let replica: Int
        let at: Moment
    }

    /// The end of a replica that the test had not killed.
    struct End: Sendable, CustomStringConvertible {
        let status: Int32
        let lastWords: String
        /// Whether a fault had struck that may end a replica.
        let hasCause: Bool

        /// Whether systemd starts it again, as it does not after 64 and 78, and the end was no crash.
        var isInOrder: Bool { hasCause && [69, 70, 1].contains(status) }
        var description: String { "\(status): \(lastWords)" }
    }

    /// Requests of replicas that did not own the app, without an explanation. A process can freeze between its last look at the lease and
    /// the first byte of a request. Then that request comes after the thaw.
    func unexplained(_ strays: [Traffic.Stray]) -> [Traffic.Stray] {
        thaws.reduce(strays) { strays, thaw in
            let late = strays.firstIndex {
                $0.caller == "\(thaw.replica)" && (Duration.zero ... .milliseconds(500)).contains($0.at - thaw.at)
            }
            return strays.enumerated().filter { $0.offset != late }.map(\.element)
        }
    }
}
