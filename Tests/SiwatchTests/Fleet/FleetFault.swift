// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// A fault around several siwatch on one server.
enum FleetFault: Sendable {
    /// A replica dies, and systemd would start it again.
    case kill(Int)
    /// A replica freezes, and goes on where it stood.
    case freeze(Int)
    /// The server ends one of the replicas' sessions, the one at this share of all.
    case endOfSession(Double)
    /// The server dies, and starts again at once.
    case restart
    /// The server dies, and starts again once every replica has reported that it is not ready.
    case absence
    /// A replica loses all of its connections, and cannot make new ones.
    case cut(Int)
    /// Bytes to and from a replica stay on the way, and come late or never.
    case darkness(Int, isForGood: Bool)
    case delay(Int, Duration)
    case fullDisk
    /// The wall clock of the replica with a clock of its own is set.
    case step(Duration)

    enum Kind: String, CaseIterable, Sendable {
        case kill, freeze, endOfSession, restart, absence, cut, darkness, delay, fullDisk, step
    }

    /// - Parameter replica: the struck replica, for faults that strike one.
    static func random(_ kind: Kind, of replica: Int, using generator: inout some RandomNumberGenerator) -> FleetFault {
        switch kind {
        case .kill: .kill(replica)
        case .freeze: .freeze(replica)
        case .endOfSession: .endOfSession(.random(in: 0..<1, using: &generator))
        case .restart: .restart
        case .absence: .absence
        case .cut: .cut(replica)
        case .darkness: .darkness(replica, isForGood: .random(using: &generator))
        case .delay: .delay(replica, .milliseconds(.random(in: 10...100, using: &generator)))
        case .fullDisk: .fullDisk
        case .step: .step(.seconds([-86_400, -3_600, 3_600, 8 * 86_400].randomElement(using: &generator)!))
        }
    }

    /// That of the same name. What a case holds follows in parentheses.
    var kind: Kind { Kind(rawValue: String("\(self)".prefix { $0 != "(" }))! }

    /// The replica that cannot work while the fault lasts.
    var struck: Int? {
        switch self {
        case .kill(let replica), .freeze(let replica), .cut(let replica), .darkness(let replica, _): replica
        case .endOfSession, .restart, .absence, .delay, .fullDisk, .step: nil
        }
    }

    /// Whether the fault may go on while the next one strikes.
    var lasts: Bool { [.kill, .freeze, .cut, .darkness, .delay, .step].contains(kind) }
    /// Whether the test looks for it in the reports of all replicas, so that no replica may be struck already.
    var isAlone: Bool { [.absence, .fullDisk, .step].contains(kind) }
    /// Whether the struck replica cannot reach the server, and so may not be ready.
    var isOnTheRoad: Bool { [.cut, .darkness].contains(kind) }
    /// Whether a replica may end because of it, for systemd to start it again. Such a fault takes the server from it.
    var mayEndReplicas: Bool { ![.kill, .freeze, .step].contains(kind) }

    enum Length: Sendable {
        /// Until another replica has shown that it works.
        case brief
        /// Until the replica's lease has ended, and another asks Apple.
        case pastTheLease
        /// Until the replica's claims have ended as well, and others have settled them.
        case pastTheClaims
    }
}
