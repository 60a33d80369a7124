// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How Apple has answered each client and key. A new start or another key begins anew.
package struct ClientProofs: Sendable {
    private var records: [ClientIdentity: AnswerRecord] = [:]

    package init() {}

    /// Notes an answer to a check of a token that Apple had accepted before. What is known of an earlier load of the same client is void
    /// from then on.
    ///
    /// - Parameter isValid: a 200; else `invalid_grant`.
    package mutating func record(isValid: Bool, by identity: ClientIdentity, at time: Timestamp, settle: Duration) {
        update(identity) {
            if isValid { ($0.acceptedAt, $0.provedAt) = (time, time) }
            $0.append(isRejection: !isValid, at: time, settle: settle)
        }
    }

    /// Notes a 200 that is no answer to such a check: it says nothing of the answers around it.
    ///
    /// - Parameter isProof: whether Apple had accepted the token before. Else the 200 says that the key works, and proves nothing of what
    ///   Apple rejects.
    package mutating func recordValid(by identity: ClientIdentity, isProof: Bool, at time: Timestamp) {
        update(identity) {
            $0.acceptedAt = time
            if isProof { $0.provedAt = time }
        }
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

    /// Who has proved that Apple accepts a client with this key, after `time` and within the last interval; nil where nobody has.
    package func prover(
        clientID: String,
        keyID: String,
        after time: Timestamp = .earliest,
        at now: Timestamp,
        within interval: Duration
    ) -> ClientIdentity? {
        records.first { identity, record in
            identity.clientID == clientID && identity.keyID == keyID && record.isProven(at: now, within: interval)
                && isGreater(record.provedAt, than: time)
        }?.key
    }

    /// The clients that have had any 200 within the last interval, whatever the key: what was said to another is forgotten.
    package func acceptedClients(at now: Timestamp, within interval: Duration) -> Set<String> {
        Set(records.filter { $0.value.isAccepted(at: now, within: interval) }.map(\.key.clientID))
    }

    /// The clients that are proven, each with its key and with the time in which its answers were normal on both sides.
    func proven(at now: Timestamp, within interval: Duration) -> [(ClientIdentity, normal: ClosedRange<Timestamp>?)] {
        records.filter { $0.value.isProven(at: now, within: interval) }
            .sorted { ($0.key.clientID, $0.key.keyID) < ($1.key.clientID, $1.key.keyID) }
            .map { ($0.key, $0.value.normal) }
    }
}
