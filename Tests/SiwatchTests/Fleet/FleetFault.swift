// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// What may go wrong around several siwatch on one server.
enum FleetFault: Sendable {
    /// A replica dies, and is started anew.
    case kill(Int)
    /// One stands still, and goes on where it stood.
    case freeze(Int)
    /// The server ends one of their sessions, the one at this share of all.
    case endOfSession(Double)
    /// The server dies, and is there again at once.
    case restart
    /// The server dies, and is there again once every replica has said that it is not ready.
    case absence
    /// A replica loses all of its connections, and finds no way to new ones.
    case cut(Int)
    /// What it sends and is sent stays on the way, and comes late or not at all.
    case darkness(Int, isForGood: Bool)
    /// What it sends and is sent comes late.
    case delay(Int, Duration)
    /// The server's disk is full.
    case fullDisk
    /// The wall clock of the one that has a clock of its own is set.
    case step(Duration)

    enum Kind: String, CaseIterable, Sendable {
        case kill, freeze, endOfSession, restart, absence, cut, darkness, delay, fullDisk, step
    }

    /// - Parameter replica: the one that is struck, where one is.
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

    var kind: Kind {
        switch self {
        case .kill: .kill
        case .freeze: .freeze
        case .endOfSession: .endOfSession
        case .restart: .restart
        case .absence: .absence
        case .cut: .cut
        case .darkness: .darkness
        case .delay: .delay
        case .fullDisk: .fullDisk
        case .step: .step
        }
    }

    /// The replica that cannot do its work while it lasts.
    var struck: Int? {
        switch self {
        case .kill(let replica), .freeze(let replica), .cut(let replica), .darkness(let replica, _): replica
        case .endOfSession, .restart, .absence, .delay, .fullDisk, .step: nil
        }
    }

    /// Whether it may go on while the next one strikes.
    var lasts: Bool {
        switch self {
        case .kill, .freeze, .cut, .darkness, .delay, .step: true
        case .endOfSession, .restart, .absence, .fullDisk: false
        }
    }

    /// Whether it is looked for in what all replicas say of themselves, so that none may be struck already.
    var isAlone: Bool {
        switch self {
        case .absence, .fullDisk, .step: true
        case .kill, .freeze, .endOfSession, .restart, .cut, .darkness, .delay: false
        }
    }

    /// Whether whoever is struck by it finds no way to the server, and so may not be ready.
    var isOnTheRoad: Bool {
        switch self {
        case .cut, .darkness: true
        case .kill, .freeze, .endOfSession, .restart, .absence, .delay, .fullDisk, .step: false
        }
    }

    /// Whether a replica may end over it, for systemd to start it again: it takes the server from it.
    var mayEndReplicas: Bool {
        switch self {
        case .endOfSession, .restart, .absence, .cut, .darkness, .delay, .fullDisk: true
        case .kill, .freeze, .step: false
        }
    }

    /// For how long a replica is struck.
    enum Length: Sendable {
        /// Until somebody else has shown that he goes on.
        case brief
        /// Until its lease has ended, and another asks Apple.
        case pastTheLease
        /// Until its claims have ended as well, and others have settled what it had.
        case pastTheClaims
    }
}
