// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

/// How Apple has answered each client and key. A start of siwatch or a new key begins anew.
package struct ClientProofs: Sendable {
    private var records: [ClientIdentity: AnswerRecord] = [:]

    package init() {}

    /// Notes an answer to a check of a token that Apple had accepted before. It voids the record of an earlier load of the same client.
    package mutating func record(isValid: Bool, by identity: ClientIdentity, at time: Timestamp, settle: Duration) {
        update(identity, at: time) {
            if isValid { ($0.acceptedAt, $0.provedAt) = (time, time) }
            $0.append(isRejection: !isValid, at: time, settle: settle)
        }
    }

    /// Notes a 200 to any other request, which says nothing of the answers around it. If Apple had not accepted the token before, the 200
    /// shows that the key works, and proves nothing of what Apple rejects.
    package mutating func recordValid(by identity: ClientIdentity, isProof: Bool, at time: Timestamp) {
        update(identity, at: time) {
            $0.acceptedAt = time
            if isProof { $0.provedAt = time }
        }
    }

    private mutating func update(_ identity: ClientIdentity, at now: Timestamp, _ change: (inout AnswerRecord) -> Void) {
        forget(after: now)
        guard !records.keys.contains(where: { $0.clientID == identity.clientID && $0.load > identity.load }) else { return }
        if records[identity] == nil { records = records.filter { $0.key.clientID != identity.clientID || $0.key.load == identity.load } }
        change(&records[identity, default: AnswerRecord()])
    }

    package mutating func forget(clients: Set<String>) {
        records = records.filter { !clients.contains($0.key.clientID) }
    }

    /// Forgets clients with an answer that is later than now by more than a minute. The clock was set back since, and some day that answer
    /// would seem to have come after what happens now.
    package mutating func forget(after now: Timestamp) {
        guard records.values.contains(where: { $0.isLater(than: now) }) else { return }
        records = records.filter { !$0.value.isLater(than: now) }
    }

    /// Whether Apple has accepted the client with this key, after `time` and within the last interval.
    package func isProven(
        clientID: String,
        keyID: String,
        after time: Timestamp = .earliest,
        at now: Timestamp,
        within interval: Duration
    ) -> Bool {
        records.contains { identity, record in
            identity.clientID == clientID && identity.keyID == keyID && record.isProven(at: now, within: interval)
                && isGreater(record.provedAt, than: time)
        }
    }

    /// The clients that have had any 200 within the last interval, with their current key. Answers to earlier keys are forgotten.
    package func acceptedClients(at now: Timestamp, within interval: Duration) -> Set<String> {
        Set(records.filter { $0.value.isAccepted(at: now, within: interval) }.map(\.key.clientID))
    }

    /// The proven clients, each with its key and with the time in which its answers were normal on both sides.
    func proven(at now: Timestamp, within interval: Duration) -> [(ClientIdentity, normal: ClosedRange<Timestamp>?)] {
        records.filter { $0.value.isProven(at: now, within: interval) }
            .sorted { ($0.key.clientID, $0.key.keyID) < ($1.key.clientID, $1.key.keyID) }
            .map { ($0.key, $0.value.normal) }
    }
}
