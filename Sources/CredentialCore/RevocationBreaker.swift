// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// Decides whether an `invalid_grant` is believed.
///
/// Apple evaluates the grant before it authenticates the client, so a wrong key or client can answer `invalid_grant` for everybody.
/// A rejection is admitted only where the same key and client have had a 200 since the configuration was loaded. It is held otherwise,
/// and a held answer is no fact.
package struct RevocationBreaker: Sendable {
    package enum Admission: Sendable, Equatable {
        case admitted, held
    }

    private var proven: Set<ClientIdentity> = []

    package init() {}

    /// Notes that Apple answered 200 to this key and client.
    package mutating func recordValid(by identity: ClientIdentity) {
        proven.insert(identity)
    }

    package func judgeRejection(by identity: ClientIdentity) -> Admission {
        proven.contains(identity) ? .admitted : .held
    }
}

/// Who asked: the client, the key that signed its secret, and which load of the configuration both come from.
package struct ClientIdentity: Sendable, Hashable {
    package var clientID: String
    package var keyID: String
    /// 0 for the one at the start.
    package var load: Int

    package init(clientID: String, keyID: String, load: Int = 0) {
        self.clientID = clientID
        self.keyID = keyID
        self.load = load
    }
}
