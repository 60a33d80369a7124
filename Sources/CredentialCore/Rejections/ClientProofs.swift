// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How Apple has answered each client and key. A new start or another key begins anew.
package struct ClientProofs: Sendable {
    private var records: [ClientIdentity: AnswerRecord] = [:]

    package init() {}

    /// Notes an answer to a check. What is known of an earlier load of the same client is void from then on.
    ///
    /// - Parameter isValid: a 200; else `invalid_grant`.
    package mutating func record(isValid: Bool, by identity: ClientIdentity, at time: Timestamp, settle: Duration) {
        update(identity) {
            if isValid { $0.validAt = time }
            $0.append(isRejection: !isValid, at: time, settle: settle)
        }
    }

    /// Notes a 200 about somebody who was asked about out of turn: it proves the client, and says nothing of the answers around it.
    package mutating func recordValid(by identity: ClientIdentity, at time: Timestamp) {
        update(identity) { $0.validAt = time }
    }

    private mutating func update(_ identity: ClientIdentity, _ change: (inout AnswerRecord) -> Void) {
        guard !records.keys.contains(where: { $0.clientID == identity.clientID && $0.load > identity.load }) else { return }
        if records[identity] == nil { records = records.filter { $0.key.clientID != identity.clientID || $0.key.load == identity.load } }
        change(&records[identity, default: AnswerRecord()])
    }

    /// Forgets what was proved of clients whose key is another one now.
    package mutating func forget(clients: Set<String>) {
        records = records.filter { !clients.contains($0.key.clientID) }
    }

    /// Whether a client had a 200 with this key within the last interval.
    package func isProven(clientID: String, keyID: String, at now: Timestamp, within interval: Duration) -> Bool {
        records.contains { identity, record in
            identity.clientID == clientID && identity.keyID == keyID && record.isProven(at: now, within: interval)
        }
    }

    /// The clients that are proven, whatever the key: what another key proved is forgotten.
    package func provenClients(at now: Timestamp, within interval: Duration) -> Set<String> {
        Set(records.filter { $0.value.isProven(at: now, within: interval) }.map(\.key.clientID))
    }

    /// The clients that are proven, each with its key and with the time in which its answers were normal on both sides.
    func proven(at now: Timestamp, within interval: Duration) -> [(ClientIdentity, normal: ClosedRange<Timestamp>?)] {
        records.filter { $0.value.isProven(at: now, within: interval) }
            .sorted { ($0.key.clientID, $0.key.keyID) < ($1.key.clientID, $1.key.keyID) }
            .map { ($0.key, $0.value.normal) }
    }
}
