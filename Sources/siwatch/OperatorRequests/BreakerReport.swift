// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// The breaker of an app, for people and programs.
struct BreakerReport: Encodable {
    var app: String
    /// In the order of their users. What is served has other names in their place.
    var rejectedCanaries: [CredentialID]
    private let pending: Int
    private let breaker: RejectionBreaker

    init(_ breaker: RejectionBreaker, of app: AppStatus) {
        self.app = app.app
        self.breaker = breaker
        rejectedCanaries = breaker.rejectedCanaries.sorted { ($0.userID, $0.clientID) < ($1.userID, $1.clientID) }
        pending = app.pending
    }

    var isOpen: Bool { breaker.isOpen }
    /// Nil while the breaker is closed, or if its state cannot be read.
    private var openedAt: Timestamp? { breaker == .unread ? nil : breaker.openedAt }
    /// Until when the number of rejections opens nothing, because an operator has confirmed many.
    var mutedUntil: Timestamp? { breaker.mutedUntil }

    func encode(to encoder: any Encoder) throws {
        try encoder.encode([
            "app": app, "isOpen": isOpen, "openedAt": openedAt, "causes": breaker.causes, "blamedClients": breaker.blamedClients.sorted(),
            "rejectedCanaries": rejectedCanaries, "answers": breaker.judged.answers, "rejections": breaker.judged.rejections,
            "probes": breaker.probed.answers, "rejectedProbes": breaker.probed.rejections, "confirmedAt": breaker.confirmedAt,
            "mutedUntil": mutedUntil, "pending": pending,
        ])
    }

    /// As the end of a sentence.
    var state: String {
        let (answers, rejections) = breaker.judged
        guard let openedAt else {
            if isOpen { return "open, because its state cannot be read: no rejection is believed" }
            let waiting = pending > 0 ? ", \(pending) rejections wait to be believed" : ""
            return "closed, \(rejections) of the last \(answers) answers are rejections\(waiting)"
        }
        let reasons = breaker.causes.map { cause in
            switch cause {
            case .disproportion where answers == 0: "its state could not be read when siwatch started"
            case .disproportion:
                "\(rejections) of \(answers) answers were rejections; of \(breaker.probed.answers) since then, \(breaker.probed.rejections)"
            case .canary:
                "Apple rejected the canary \(rejectedCanaries.map { "\($0.userID.printable) at \($0.clientID.printable)" }.joined(separator: ", "))"
            case .blamedClient:
                "Apple blames the configuration of \(breaker.blamedClients.sorted().map(\.printable).joined(separator: ", "))"
            }
        }
        let isOfClients = breaker.causes == [.blamedClient]
        let effect = isOfClients ? "a client's rejections are believed once Apple accepts it again" : "no rejection is believed"
        return "open since \(openedAt.text), \(effect): \(reasons.joined(separator: "; "))"
    }
}
