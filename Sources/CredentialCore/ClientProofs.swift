// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

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

/// Which clients Apple has accepted with which key, and when last. A new start or another key begins anew.
package struct ClientProofs: Sendable, Equatable {
    private var validAt: [ClientIdentity: Timestamp] = [:]

    package init() {}

    /// Notes a 200. What is known of an earlier load of the same client is void from then on.
    package mutating func recordValid(by identity: ClientIdentity, at time: Timestamp) {
        guard !validAt.keys.contains(where: { $0.clientID == identity.clientID && $0.load > identity.load }) else { return }
        validAt = validAt.filter { $0.key.clientID != identity.clientID || $0.key.load == identity.load }
        validAt[identity] = time
    }

    /// Forgets what was proved of clients whose key is another one now.
    package mutating func forget(clients: Set<String>) {
        validAt = validAt.filter { !clients.contains($0.key.clientID) }
    }

    /// Whether a client had a 200 with this key within the last interval.
    package func isProven(clientID: String, keyID: String, at now: Timestamp, within interval: Duration) -> Bool {
        validAt.contains { identity, time in
            identity.clientID == clientID && identity.keyID == keyID && time <= now && now <= time.advanced(by: interval)
        }
    }

    /// The clients that are proven, each with its key.
    package func proven(at now: Timestamp, within interval: Duration) -> [ClientIdentity] {
        validAt.keys.filter { isProven(clientID: $0.clientID, keyID: $0.keyID, at: now, within: interval) }
    }
}

/// An `invalid_grant` that waits to be believed.
package struct PendingRejection: Sendable, Equatable {
    /// When the request was sent: the fact it may become is of that moment.
    package var requestedAt: Timestamp
    package var answeredAt: Timestamp
    /// The key that asked.
    package var keyID: String

    package init(requestedAt: Timestamp, answeredAt: Timestamp, keyID: String) {
        self.requestedAt = requestedAt
        self.answeredAt = answeredAt
        self.keyID = keyID
    }
}

/// Which pending rejections become facts now.
package struct AdmissionRule: Sendable, Equatable {
    /// Nil is every client.
    package var clientID: String?
    /// Nil is every key.
    package var keyID: String?
    /// Those that Apple answered by then.
    package var answeredBy: Timestamp

    package init(clientID: String?, keyID: String?, answeredBy: Timestamp) {
        self.clientID = clientID
        self.keyID = keyID
        self.answeredBy = answeredBy
    }

    package func admits(_ rejection: PendingRejection, of clientID: String) -> Bool {
        self.clientID.map { $0 == clientID } ?? true && keyID.map { $0 == rejection.keyID } ?? true
            && rejection.answeredAt <= answeredBy
    }
}

extension RevocationBreaker {
    /// What is to be believed now: while it is closed, the rejections whose settle time has passed and whose client and key are proven,
    /// and those that an operator has confirmed.
    package func admissions(
        with proofs: ClientProofs,
        under rules: BreakerRules,
        within interval: Duration,
        at now: Timestamp
    ) -> [AdmissionRule] {
        guard !isOpen else { return [] }
        let settled = now.advanced(by: .zero - rules.settle)
        var admissions = proofs.proven(at: now, within: interval).map {
            AdmissionRule(clientID: $0.clientID, keyID: $0.keyID, answeredBy: settled)
        }
        if let confirmedAt, confirmedAt <= now { admissions.append(AdmissionRule(clientID: nil, keyID: nil, answeredBy: confirmedAt)) }
        return admissions
    }
}
