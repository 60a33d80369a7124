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
    fileprivate func proven(at now: Timestamp, within interval: Duration) -> [(ClientIdentity, normal: ClosedRange<Timestamp>?)] {
        records.filter { $0.value.isProven(at: now, within: interval) }
            .sorted { ($0.key.clientID, $0.key.keyID) < ($1.key.clientID, $1.key.keyID) }
            .map { ($0.key, $0.value.normal) }
    }
}

/// How Apple has answered one client and key of late: when last with a 200, and when normally.
///
/// An incident at Apple is over some time, and until then nothing tells its answers from true ones but their number. So an answer is
/// *normal* if every stretch of consecutive answers that contains it is: 50 of them in a quarter of an hour and in the settle time, with
/// no more than two rejections. A small app never has so many; there only a repetition counts. The figures are fixed: with other figures
/// for the breaker an operator says how much is too much, and not how little is normal.
private struct AnswerRecord: Sendable {
    private static let length = 50
    private static let mostRejections = 2
    private static let longest = Duration.seconds(900)
    /// Answers that were under way together come in any order within this time. What is older comes from a clock that was set back.
    private static let disorder = Duration.seconds(60)

    var validAt: Timestamp?
    /// The newest stretch, oldest first.
    private var stretch: [(at: Timestamp, isRejection: Bool)] = []
    private var rejections = 0
    /// Since when every stretch was normal; nil while the newest is not.
    private var normalSince: Timestamp?

    func isProven(at now: Timestamp, within interval: Duration) -> Bool {
        validAt.map { $0 <= now && now <= $0.advanced(by: interval) } ?? false
    }

    /// The answers of this time were normal. The two at its ends are left out: others, that were not, may have come in the same moment.
    var normal: ClosedRange<Timestamp>? {
        guard let start = normalSince?.advanced(by: .milliseconds(1)), let end = stretch.first?.at.advanced(by: .milliseconds(-1))
        else { return nil }
        return start <= end ? start...end : nil
    }

    mutating func append(isRejection: Bool, at time: Timestamp, settle: Duration) {
        if let last = stretch.last, time.advanced(by: Self.disorder) < last.at {
            stretch = []
            rejections = 0
        }
        let time = max(time, stretch.last?.at ?? time)
        stretch.append((time, isRejection))
        if isRejection { rejections += 1 }
        if stretch.count > Self.length, stretch.removeFirst().isRejection { rejections -= 1 }
        let isNormal =
            stretch.count == Self.length && rejections <= Self.mostRejections
            && stretch[0].at.duration(to: time) <= min(Self.longest, settle)
        normalSince = isNormal ? normalSince ?? time : nil
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
    /// When Apple gave the answer; of one that it has repeated, both the first and the last.
    package var answered: ClosedRange<Timestamp>
    /// Only those that Apple has repeated at least so long after the first; nil is all. One that is repeated twice as late has waited
    /// enough, whenever the last answer was.
    package var repeatedAfter: Duration?
    /// Only those of tokens that Apple had accepted before. What ends with the rejection of another is the asking, so it has to be
    /// repeated.
    package var onlyAccepted: Bool

    package init(
        clientID: String? = nil,
        keyID: String? = nil,
        answered: ClosedRange<Timestamp>,
        repeatedAfter: Duration? = nil,
        onlyAccepted: Bool = false
    ) {
        self.clientID = clientID
        self.keyID = keyID
        self.answered = answered
        self.repeatedAfter = repeatedAfter
        self.onlyAccepted = onlyAccepted
    }
}

extension RevocationBreaker {
    /// What is to be believed now, while it is closed: what an operator has confirmed; and of a client and key that are proven, once the
    /// settle time has passed,
    ///
    /// - what Apple said in the midst of normal answers of a token that it had accepted before,
    /// - what Apple said again an interval later (the store counts that only if it accepted the client in between).
    package func admissions(
        with proofs: ClientProofs,
        under rules: BreakerRules,
        within interval: Duration,
        at now: Timestamp
    ) -> [AdmissionRule] {
        guard !isOpen else { return [] }
        let settled = now.advanced(by: .zero - rules.settle)
        var admissions: [AdmissionRule] = []
        for (identity, normal) in proofs.proven(at: now, within: interval) {
            if let normal, normal.lowerBound <= settled {
                admissions.append(
                    AdmissionRule(
                        clientID: identity.clientID,
                        keyID: identity.keyID,
                        answered: normal.lowerBound...min(settled, normal.upperBound),
                        onlyAccepted: true
                    )
                )
            }
            admissions.append(
                AdmissionRule(
                    clientID: identity.clientID,
                    keyID: identity.keyID,
                    answered: .earliest...settled,
                    repeatedAfter: interval
                )
            )
        }
        if let confirmedAt, confirmedAt <= now { admissions.append(AdmissionRule(answered: .earliest...confirmedAt, onlyAccepted: true)) }
        return admissions
    }
}
